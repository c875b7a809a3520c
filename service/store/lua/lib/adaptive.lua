-- include: tenant interval ball curve model score refining
-- The preset `adaptive`: the same numbers in the same order as algorithm/adaptive.py, where it is
-- explained.
local adaptive = {}

local OPTIMISM, LEAST_COST = 3.0, 0.05
local RESCORED = 2
local ROOT = 0

-- -- the choice

-- The arm with the largest UCB at x, that UCB, and the best mean there; or nil.
local function best_at(t, x)
  local best, best_ucb, best_mean
  for depth = 0, t.depth do
    local index = interval.index(x, depth)
    local member, minus_ucb = interval.first_of(key.active(t.base, depth, index))
    if member then
      local arm, ucb = struct.unpack(">I4", member), -minus_ucb
      if not best or ucb > best_ucb or (ucb == best_ucb and arm < best) then
        best, best_ucb = arm, ucb
      end
    end
    local _, minus_mean = interval.first_of(key.means(t.base, depth, index))
    if minus_mean then
      best_mean = math.max(best_mean or -minus_mean, -minus_mean)
    end
  end
  return best, best_ucb, best_mean
end

-- Whether the next arm may bring more than a look at it costs.
local function take_new_arm(t, m, best_ucb)
  if m.tried == t.arms then
    return false
  end
  local beyond = m.total > m.rewards
  local gap = beyond and 1 or math.max(1 - best_ucb, 0)
  local reach = math.min(gap / t.lipschitz, 1)
  local gain = OPTIMISM * 0.5 * gap * m.future * reach / (m.tried + 1)
  local typical = score.PRIOR_MEAN
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
  local b = {
    id = tenant.count(t.key, "next_ball", 1) - 1,
    depth = 0,
    index = 0,
    width = 1,
    count_left = 0,
    count_right = 0,
    total_left = 0,
    total_right = 0,
    flying_left = 0,
    flying_right = 0,
    mean = score.PRIOR_MEAN,
    variance = score.PRIOR_VARIANCE,
    ucb = 1,
  }
  return { arm = arm, step = m.step, rewards = 0, balls = { b } }
end

-- A play in flight makes its ball less uncertain, though no better or worse.
local function let_fly(t, m, b, x, arm)
  if curve.in_right_half(b, x) then
    b.flying_right = b.flying_right + 1
  else
    b.flying_left = b.flying_left + 1
  end
  b.ucb = math.min(b.ucb, score.ucb(t, m, b))
  score.place(key.active(t.base, b.depth, b.index), b.ucb, arm)
end

-- What is played at x: arm, ball, phase, bound and best mean of the decision.
function adaptive.decide(t, x)
  local m = model.load(t)
  t.trials = t.trials + 1
  local arm, ucb, best_mean = best_at(t, x)
  local d = { position = 0, best_mean = best_mean or 0 / 0 }
  if not arm or take_new_arm(t, m, ucb) then
    local c = new_arm(t, m)
    model.save(t, m)
    let_fly(t, m, c.balls[1], x, c.arm)
    curve.save(t.base, c)
    d.arm, d.ball, d.phase, d.bound = c.arm, ROOT, ball.FLAGGED, 1
  else
    local played = curve.touch(t.base, arm, x, function(b)
      let_fly(t, m, b, x, arm)
    end)
    d.arm, d.ball, d.phase = arm, played.id, ball.ACTIVE
    -- The UCB is that of the ball's centre; away from it a mean may be higher.
    d.bound = math.min(ucb + t.lipschitz * played.width / 2, 1)
  end
  return d
end

-- -- the reward

-- Where a decision's reward goes: never forgotten, since a curve covers every context.
function adaptive.locate(t, d)
  local c = curve.load(t.base, d.arm)
  return { curve = c, id = c.balls[curve.at(c, d.x)].id, phase = ball.ACTIVE }
end

function adaptive.credit(t, spot, d, reward)
  local m, c = model.load(t), spot.curve
  curve.land(c, d.x)
  local b = c.balls[curve.at(c, d.x)]
  m.rewards = m.rewards + 1
  m.total = m.total + reward
  c.rewards = c.rewards + 1
  if c.rewards == 1 then
    m.first_rewards = m.first_rewards + reward
    m.arms_rewarded = m.arms_rewarded + 1
  elseif t.noise == "auto" then
    model.learn_noise(m, b, reward, score.noise(t, m, b.width), 1 / (c.rewards - 1))
  end
  model.look_ahead(t, m)
  refining.refine(t, m, c, d.x)
  b = c.balls[curve.at(c, d.x)]
  if curve.in_right_half(b, d.x) then
    b.count_right, b.total_right = b.count_right + 1, b.total_right + reward
  else
    b.count_left, b.total_left = b.count_left + 1, b.total_left + reward
  end
  score.curve(t, m, c)
  score.place(key.means(t.base, b.depth, b.index), b.mean, c.arm)
  spot.id = b.id
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
