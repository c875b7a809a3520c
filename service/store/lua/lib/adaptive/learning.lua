-- include: phase curve curve_record model inference score standing refining
-- What becomes of a reward under the preset `adaptive`, as in algorithm/adaptive.py.
local learning = { CLOSED_AT_ONCE = 24 }

local RESCORED = 2
-- What a curve that is split or scored takes, in decisions that are closed without.
local SCORING = 8

-- Where a decision's reward goes: a curve covers every context. `work` is what was done there.
function learning.locate(t, d)
  local c = curve_record.load_at(t.base, d.arm, d.x)
  return { curve = c, id = curve.get(c, 1, curve.ID), phase = phase.ACTIVE, work = 1 }
end

function learning.credit(t, spot, d, reward)
  local m, c, place = model.load(t), spot.curve, 1
  c.rewards = c.rewards + 1
  model.count(m, reward, c.rewards == 1)
  if c.rewards > 1 and not m.noise_is_told then
    inference.learn_noise(t, m, c, place, reward, 1 / (c.rewards - 1))
  end
  inference.look_ahead(t, m)
  score.note(m, c, place, reward)
  if not curve.flies_in(c, 1) or refining.due(t, m, c, 1) or score.due(m, c) then
    c, place = curve_record.whole(c)
    spot.work = spot.work + SCORING
  end
  curve.land(c, place)
  place = refining.refine(t, m, c, place, d.x)
  curve.add(c, place, d.x, curve.COUNTS, 1)
  curve.add(c, place, d.x, curve.TOTALS, reward)
  local is_due = score.due(m, c)
  if is_due then
    score.curve(t, m, c)
    if t.lipschitz == "auto" then
      inference.learn_slope(t, m, c, place)
    end
  else
    score.ball(t, m, c, place, reward)
  end
  standing.rank_mean(c, place, is_due)
  score.save(t, c)
  spot.id = curve.get(c, place, curve.ID)
  for _ = 1, RESCORED do
    if m.cursor < t.arms_ever then
      local stale = curve_record.load(t.base, m.cursor)
      m.cursor = m.cursor + 1
      if stale and stale.rewards > 0 and stale.step < m.step then
        score.curve(t, m, stale)
        score.save(t, stale)
        spot.work = spot.work + SCORING
      end
    end
  end
  model.save(t, m)
end

-- The reward will never come: the play is no longer in flight.
function learning.abandon(t, spot)
  local m = model.load(t)
  local c, place = curve_record.whole(spot.curve)
  curve.land(c, place)
  score.curve(t, m, c)
  score.save(t, c)
  model.save(t, m)
  spot.work = spot.work + SCORING
end

-- No split is left to others.
function learning.due()
  return false
end
