-- include: tenant curve score
-- How a curve is split, as in algorithm/adaptive.py.
local refining = {}

local MOST_BALLS, FIRST_DEPTH = 64, 6

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
  redis.call("ZREM", key.active(t.base, b.depth, b.index), score.member(c.arm))
  redis.call("ZREM", key.means(t.base, b.depth, b.index), score.member(c.arm))
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
function refining.refine(t, m, c, x)
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
