-- include: interval ranking phase ball arm_set flagged sampling search
-- What the paper's presets play, as in algorithm/learner.py.
local choosing = {}

-- What would be played at x of the arms allowed: a decision, not made yet; nil if there is none.
-- Nothing is changed, but that balls without a live arm may be put to sleep.
function choosing.choose(t, x, allowed, now)
  local found = interval.best_at(t.base, x, t.depth)
  local best_mean = found.best_mean
  local b
  if allowed.every then
    local id = interval.flagged_at(t.base, x, t.depth) or found.best
    b = id and ball.load(t.base, id)
  else
    b, found = search.best(t, x, allowed)
  end
  if not b then
    return nil
  end
  local d = { ball = b.id, phase = b.phase, x = x, best_mean = best_mean, record = b }
  d.ucb, d.runner, d.runner_ucb, d.bound = 0 / 0, 0, 0 / 0, 1
  if b.phase == phase.FLAGGED then
    d.due = flagged.due(t, b, now)
    d.position, d.arm, d.asked = sampling.pick(t, b, allowed)
  else
    d.position, d.arm = arm_set.first_allowed(t.base, b, b.cursor, allowed)
    d.ucb = ranking.ucb(b, t.confidence)
    d.bound = math.min(d.ucb, 1)
    if found.second then
      d.runner, d.runner_ucb = found.second, ranking.ucb_of(found.second_score)
    end
  end
  return d
end

-- Plays what was chosen.
function choosing.play(t, d, now)
  local b = d.record
  if b.phase == phase.FLAGGED then
    -- As it is met: when this play sets the last arm aside, its reward may still complete it.
    d.due = flagged.due(t, b, now)
    sampling.issue(t, b, d)
  else
    b.cursor = (d.position + 1) % b.arms
    if b.n == 0 then
      if b.selects == 0 then
        ranking.take_fresh(t.base, b)
      end
      b.selects = b.selects + 1
      ranking.place(t.base, b, t.confidence)
    end
  end
  ball.save(t.base, b)
end
