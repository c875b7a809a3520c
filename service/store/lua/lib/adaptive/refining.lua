-- include: tenant curve standing
-- How a curve is split, as in algorithm/adaptive.py.
local refining = {}

local MOST_BALLS, FIRST_DEPTH = 64, 6

-- A ball that this reward has made is not ranked yet.
local function split(t, c, place, next_ball)
  if not c.unranked[c.ids[place]] then
    standing.leave(t, c, place)
  end
  curve.split(c, place, next_ball)
  return next_ball + 2
end

-- Brings the counters up to date with what a curve has gained since its balls had these depths.
local function count_splits(t, c, before, next_ball)
  local splits = c.balls - #before
  tenant.count(t.key, "splits", splits)
  tenant.count(t.key, "active", splits)
  redis.call("HSET", t.key, "next_ball", next_ball)
  local gained, deepest = {}, t.depth
  for _, depth in ipairs(before) do
    gained[depth] = (gained[depth] or 0) - 1
  end
  for _, depth in ipairs(c.depths) do
    gained[depth] = (gained[depth] or 0) + 1
    deepest = math.max(deepest, depth)
  end
  for depth = 0, deepest do
    if gained[depth] and gained[depth] ~= 0 then
      tenant.count(t.key, "clusters_" .. depth, gained[depth])
    end
  end
  if deepest > t.depth then
    t.depth = deepest
    redis.call("HSET", t.key, "depth", deepest)
  end
end

-- Splits until neighbours differ by one level at the most.
local function balance(t, c, next_ball)
  local place = 1
  while place <= c.balls and c.balls < MOST_BALLS do
    local deeper = math.max(c.depths[place - 1] or 0, c.depths[place + 1] or 0)
    if c.depths[place] < deeper - 1 then
      next_ball = split(t, c, place, next_ball)
      place = math.max(place - 1, 1)
    else
      place = place + 1
    end
  end
  return next_ball
end

-- Whether the ball is too wide for its rewards, and one more.
function refining.due(t, m, c, place)
  local _, doublings = math.frexp(c.rewards)
  local deepest = math.min(FIRST_DEPTH + doublings - 1, t.max_depth)
  local count = c.counts_left[place] + c.counts_right[place] + 1
  local rise = m.lipschitz * curve.width(c, place)
  local told = count * math.sqrt(count) * rise * rise
  return c.all < MOST_BALLS and c.depths[place] < deepest and told > m.variance
end

-- Splits at x until the ball is narrow enough for its rewards, and then around it. Returns the
-- place of the ball that holds x then.
function refining.refine(t, m, c, place, x)
  local before, next_ball
  while refining.due(t, m, c, place) do
    before = before or { unpack(c.depths) }
    local right = curve.in_right_half(c, place, x)
    next_ball = split(t, c, place, next_ball or tenant.count(t.key, "next_ball", 0))
    place = place + (right and 1 or 0)
  end
  if not before then
    return place
  end
  count_splits(t, c, before, balance(t, c, next_ball))
  return curve.at(c, x)
end
