-- include: tenant interval ball curve posterior model score refining
-- The preset `adaptive`: the same numbers in the same order as algorithm/adaptive.py, where it is
-- explained.
local adaptive = {}

local OPTIMISM, LEAST_COST = 3.0, 0.05
local RESCORED = 2
local ROOT = 0

-- -- the choice

-- Whether the next arm may bring more than a look at it costs.
local function take_new_arm(t, m, best_ucb)
  if m.tried == t.arms then
    return false
  end
  local beyond = m.total > m.rewards
  local gap = beyond and 1 or math.max(1 - best_ucb, 0)
  local reach = math.min(gap / m.lipschitz, 1)
  local gain = OPTIMISM * 0.5 * gap * m.future * reach / (m.tried + 1)
  local typical = posterior.PRIOR_MEAN
  if m.arms_rewarded > 0 then
    typical = m.first_rewards / m.arms_rewarded
  end
  return gain > math.max(best_ucb - typical, LEAST_COST)
end

-- The root gives up its next arm, which gets a ball of its own.
local function new_arm(t, m)
  local arm = m.tried
  m.tried = arm + 1
  tenant.count(t.key, "active", 1)
  tenant.count(t.key, "clusters_0", 1)
  tenant.count(t.key, "cells_filled", 1)
  if m.tried == t.arms then
    redis.call("ZREM", key.waiting(t.base), ROOT)
    tenant.count(t.key, "cells_owed", 0 - t.arms)
    tenant.count(t.key, "cells_filled", 0 - t.arms)
  end
  local id = tenant.count(t.key, "next_ball", 1) - 1
  return curve.new(arm, id, posterior.PRIOR_MEAN, posterior.PRIOR_VARIANCE, 1, m.step)
end

-- A play in flight makes its ball less uncertain, though no better or worse.
local function let_fly(t, m, c, place, x)
  curve.add(c, place, x, "flying", 1)
  local flying = c.flying_left[place] + c.flying_right[place]
  local noise = score.noise(m, curve.width(c, place))
  local ucb = score.ucb(t, m, c.means[place], c.variances[place], flying, noise)
  c.ucbs[place] = math.min(c.ucbs[place], ucb)
  c.changed.ucbs = true
  score.rank(t, c, place)
end

-- What is played at x: arm, ball, phase, bound and best mean of the decision.
function adaptive.decide(t, x)
  local m = model.load(t)
  t.trials = t.trials + 1
  local arm, minus_ucb, best_mean = interval.best_at(t.base, x, t.depth)
  local d = { position = 0, best_mean = best_mean or 0 / 0 }
  if not arm or take_new_arm(t, m, -minus_ucb) then
    local c = new_arm(t, m)
    model.save(t, m)
    let_fly(t, m, c, 1, x)
    curve.save(t.base, c)
    d.arm, d.ball, d.phase, d.bound = c.arm, ROOT, ball.FLAGGED, 1
  else
    local c = curve.load_at(t.base, arm, x)
    let_fly(t, m, c, 1, x)
    curve.save_changed(t.base, c)
    d.arm, d.ball, d.phase = arm, c.ids[1], ball.ACTIVE
    -- The UCB is that of the ball's centre; away from it a mean may be higher.
    d.bound = math.min(-minus_ucb + m.lipschitz * curve.width(c, 1) / 2, 1)
  end
  return d
end

-- -- the reward

-- Where a decision's reward goes: never forgotten, since a curve covers every context.
function adaptive.locate(t, d)
  local c = curve.load_at(t.base, d.arm, d.x)
  return { curve = c, id = c.ids[1], phase = ball.ACTIVE }
end

function adaptive.credit(t, spot, d, reward)
  local m, c, place = model.load(t), spot.curve, 1
  m.rewards = m.rewards + 1
  m.total = m.total + reward
  c.rewards = c.rewards + 1
  if c.rewards == 1 then
    m.first_rewards = m.first_rewards + reward
    m.arms_rewarded = m.arms_rewarded + 1
  elseif t.noise == "auto" then
    local count = c.counts_left[place] + c.counts_right[place]
    local total = c.totals_left[place] + c.totals_right[place]
    model.learn_noise(m, count, total, reward, 1 / (c.rewards - 1))
  end
  model.look_ahead(t, m)
  score.note(m, c, place, reward)
  if not curve.flies_in(c, 1) or refining.due(t, m, c, 1) or score.due(c) then
    c, place = curve.whole(c)
  end
  curve.land(c, place)
  place = refining.refine(t, m, c, place, d.x)
  curve.add(c, place, d.x, "counts", 1)
  curve.add(c, place, d.x, "totals", reward)
  if score.due(c) then
    score.curve(t, m, c)
    if t.lipschitz == "auto" then
      model.learn_slope(t, m, c, place)
    end
  else
    c.changed.head = true
    curve.save_changed(t.base, c)
  end
  score.rank_mean(t, c, place)
  spot.id = c.ids[place]
  for _ = 1, RESCORED do
    if m.cursor < m.tried then
      local stale = curve.load(t.base, m.cursor)
      m.cursor = m.cursor + 1
      if stale.rewards > 0 and stale.step < m.step then
        score.curve(t, m, stale)
      end
    end
  end
  model.save(t, m)
end

-- No split is left to others.
function adaptive.due()
  return false
end
