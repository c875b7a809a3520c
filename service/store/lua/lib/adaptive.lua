-- include: tenant interval ball curve model
-- The preset `adaptive`: the same numbers in the same order as algorithm/adaptive.py, where it is
-- explained.
--
-- The sorted set `active` of an interval has the arms with a ball there at minus the ball's UCB,
-- `means` those whose ball has had a reward at minus the ball's mean then. Members are arms,
-- big-endian, so that equal scores are ordered by arm.
local adaptive = {}

local ROUGHNESS = 0.15
local PRIOR_MEAN, PRIOR_VARIANCE = 0.5, 0.25
local MOST_BALLS, FIRST_DEPTH = 64, 6
local OPTIMISM, LEAST_COST = 3.0, 0.05
local RESCORED, MOVED = 2, 1e-4
local TRUSTED = 1000
local ROOT = 0

local function member(arm)
  return struct.pack(">I4", arm)
end

local function place_by(sorted_set, value, arm)
  redis.call("ZADD", sorted_set, string.format("%.17g", -value), member(arm))
end

-- -- the bounds

local function noise_of(t, m, width)
  return m.variance + t.lipschitz * t.lipschitz * width * width / 12
end

local function ucb_of(t, m, b)
  local noise = noise_of(t, m, b.width)
  local answered = (m.rewards + TRUSTED) / (t.trials + TRUSTED)
  local flying = answered * (b.flying_left + b.flying_right)
  local variance = b.variance / (1 + flying * b.variance / noise)
  local reach = math.min(math.sqrt(variance) / t.lipschitz, 1)
  local share = variance / noise * m.future * reach / t.arms
  local bonus = math.sqrt(2 * variance * math.log(1 + share))
  return b.mean + t.confidence * bonus
end

-- Means and variances: what each ball knows itself, and what comes from its left and right.
local function estimate(t, m, balls)
  local roughness = ROUGHNESS * t.lipschitz * t.lipschitz
  local weights, pulls, gaps, left_weights, left_pulls = {}, {}, {}, {}, {}
  local last, weight, pull = 0, 0, 0
  for place = 1, #balls do
    local b = balls[place]
    local width = b.width
    local noise = noise_of(t, m, width)
    local centre = b.index * width + width / 2
    local gap = roughness * (centre - last)
    weight, pull = weight + (weights[place - 1] or 0), pull + (pulls[place - 1] or 0)
    local fade = 1 / (1 + gap * weight)
    weight, pull = weight * fade, pull * fade
    left_weights[place], left_pulls[place], gaps[place] = weight, pull, gap
    weights[place] = (b.count_left + b.count_right) / noise + width / PRIOR_VARIANCE
    pulls[place] = (b.total_left + b.total_right) / noise + PRIOR_MEAN * width / PRIOR_VARIANCE
    last = centre
  end
  weight, pull = 0, 0
  for place = #balls, 1, -1 do
    local b = balls[place]
    weight, pull = weight + weights[place], pull + pulls[place]
    local all_weight = weight + left_weights[place]
    b.mean = (pull + left_pulls[place]) / all_weight
    b.variance = 1 / all_weight
    local fade = 1 / (1 + gaps[place] * weight)
    weight, pull = weight * fade, pull * fade
  end
end

-- The bounds, none above what the slope L allows from any other ball of the curve.
local function bounds(t, m, balls)
  local lipschitz = t.lipschitz
  local ucbs, limits, centres = {}, {}, {}
  for place = 1, #balls do
    local b = balls[place]
    local centre, limit = b.index * b.width + b.width / 2, ucb_of(t, m, b)
    ucbs[place], centres[place] = limit, centre
    if place > 1 then
      limit = math.min(limit, limits[place - 1] + lipschitz * (centre - centres[place - 1]))
    end
    limits[place] = limit
  end
  for place = #balls - 1, 1, -1 do
    local slope = lipschitz * (centres[place + 1] - centres[place])
    limits[place] = math.min(limits[place], limits[place + 1] + slope)
  end
  for place = 1, #balls do
    ucbs[place] = math.min(ucbs[place], limits[place] + lipschitz * balls[place].width / 2)
  end
  return ucbs
end

-- Scores all balls of a curve, ranks those whose bound has moved, and saves it.
local function score(t, m, c)
  estimate(t, m, c.balls)
  for place, ucb in ipairs(bounds(t, m, c.balls)) do
    local b = c.balls[place]
    if math.abs(ucb - b.ucb) > MOVED then
      b.ucb = ucb
      place_by(key.active(t.base, b.depth, b.index), ucb, c.arm)
    end
  end
  c.step = m.step
  curve.save(t.base, c)
end

-- -- the choice

local function first_of(sorted_set)
  local top = redis.call("ZRANGE", sorted_set, 0, 0, "WITHSCORES")
  if top[1] then
    return (struct.unpack(">I4", top[1])), -tonumber(top[2])
  end
end

-- The arm with the largest UCB at x, that UCB, and the best mean there; or nil.
local function best_at(t, x)
  local best, best_ucb, best_mean
  for depth = 0, t.depth do
    local index = interval.index(x, depth)
    local arm, ucb = first_of(key.active(t.base, depth, index))
    if arm and (not best or ucb > best_ucb or (ucb == best_ucb and arm < best)) then
      best, best_ucb = arm, ucb
    end
    local _, mean = first_of(key.means(t.base, depth, index))
    if mean then
      best_mean = math.max(best_mean or mean, mean)
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
  local typical = PRIOR_MEAN
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
    mean = PRIOR_MEAN,
    variance = PRIOR_VARIANCE,
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
  b.ucb = math.min(b.ucb, ucb_of(t, m, b))
  place_by(key.active(t.base, b.depth, b.index), b.ucb, arm)
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

-- -- the partition

local function child_of(id, b, right)
  local count = right and b.count_right or b.count_left
  local total = right and b.total_right or b.total_left
  local flying = right and b.flying_right or b.flying_left
  return {
    id = id,
    depth = b.depth + 1,
    index = 2 * b.index + (right and 1 or 0),
    width = b.width / 2,
    count_left = count / 2,
    count_right = count / 2,
    total_left = total / 2,
    total_right = total / 2,
    flying_left = flying / 2,
    flying_right = flying / 2,
    ucb = math.huge,
  }
end

local function split(t, c, place, next_ball)
  local b = c.balls[place]
  redis.call("ZREM", key.active(t.base, b.depth, b.index), member(c.arm))
  redis.call("ZREM", key.means(t.base, b.depth, b.index), member(c.arm))
  c.balls[place] = child_of(next_ball, b, false)
  table.insert(c.balls, place + 1, child_of(next_ball + 1, b, true))
  return next_ball + 2
end

-- Brings the counters up to date with the balls that a curve has gained since it had so many.
local function count_splits(t, c, before, next_ball)
  local splits = #c.balls - #before
  tenant.count(t.key, "splits", splits)
  tenant.count(t.key, "active", splits)
  redis.call("HSET", t.key, "next_ball", next_ball)
  local gained, deepest = {}, t.depth
  for _, b in ipairs(before) do
    gained[b.depth] = (gained[b.depth] or 0) - 1
  end
  for _, b in ipairs(c.balls) do
    gained[b.depth] = (gained[b.depth] or 0) + 1
    deepest = math.max(deepest, b.depth)
  end
  for depth = 0, deepest do
    if gained[depth] and gained[depth] ~= 0 then
      tenant.count(t.key, "clusters_" .. depth, gained[depth])
    end
  end
  if deepest > t.depth then
    redis.call("HSET", t.key, "depth", deepest)
  end
end

-- Splits until neighbours differ by one level at the most.
local function balance(t, c, next_ball)
  local place = 1
  while place <= #c.balls and #c.balls < MOST_BALLS do
    local before, after = c.balls[place - 1], c.balls[place + 1]
    local deeper = math.max(before and before.depth or 0, after and after.depth or 0)
    if c.balls[place].depth < deeper - 1 then
      next_ball = split(t, c, place, next_ball)
      place = math.max(place - 1, 1)
    else
      place = place + 1
    end
  end
  return next_ball
end

-- Splits at x until the ball is as narrow as its rewards can tell, and then around it.
local function refine(t, m, c, x)
  local _, doublings = math.frexp(c.rewards)
  local deepest = math.min(FIRST_DEPTH + doublings - 1, t.max_depth)
  local place, before, next_ball = curve.at(c, x), nil, nil
  while #c.balls < MOST_BALLS do
    local b = c.balls[place]
    local count = b.count_left + b.count_right + 1
    if b.depth >= deepest then
      break
    end
    if count * t.lipschitz * t.lipschitz * b.width * b.width <= m.variance then
      break
    end
    before = before or { unpack(c.balls) }
    next_ball = split(t, c, place, next_ball or tenant.count(t.key, "next_ball", 0))
    place = place + (curve.in_right_half(b, x) and 1 or 0)
  end
  if before then
    count_splits(t, c, before, balance(t, c, next_ball))
  end
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
    model.learn_noise(m, b, reward, noise_of(t, m, b.width), 1 / (c.rewards - 1))
  end
  model.look_ahead(t, m)
  refine(t, m, c, d.x)
  b = c.balls[curve.at(c, d.x)]
  if curve.in_right_half(b, d.x) then
    b.count_right, b.total_right = b.count_right + 1, b.total_right + reward
  else
    b.count_left, b.total_left = b.count_left + 1, b.total_left + reward
  end
  score(t, m, c)
  place_by(key.means(t.base, b.depth, b.index), b.mean, c.arm)
  spot.id = b.id
  for _ = 1, RESCORED do
    if m.cursor < m.tried then
      local stale = curve.load(t.base, m.cursor)
      m.cursor = m.cursor + 1
      if stale.rewards > 0 and stale.step < m.step then
        score(t, m, stale)
      end
    end
  end
  model.save(t, m)
end

-- No split is left to others.
function adaptive.due()
  return false
end
