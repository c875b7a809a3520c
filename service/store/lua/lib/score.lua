-- include: tenant interval catalogue curve posterior
-- What the balls of a curve may be worth at the most, as in algorithm/adaptive.py, and how they are
-- ranked by it.
--
-- The sorted set `active` of an interval has the arms with a ball there at minus the ball's UCB,
-- `means` those whose ball has had a reward at minus the ball's mean then. Members are arms,
-- big-endian, so that equal scores are ordered by arm.
local score = {}

local TRUSTED, MOVED, NEWS = 1000, 1e-4, 0.02
local PORTION = 1000
local log, min, sqrt = math.log, math.min, math.sqrt

local function member(arm)
  return struct.pack(">I4", arm)
end

-- Returns 1 if this is new, 0 if it was so before.
local function place_in(sorted_set, value, arm)
  return redis.call("ZADD", sorted_set, "CH", string.format("%.17g", -value), member(arm))
end

-- Adds the arms of the list that have a ball in an interval, in portions that fit the stack.
local function add_listed(ranked, sorted_set, arms)
  for first = 1, #arms, PORTION do
    local members = {}
    for place = first, min(first + PORTION - 1, #arms) do
      members[#members + 1] = member(arms[place])
    end
    for place, value in ipairs(redis.call("ZMSCORE", sorted_set, unpack(members))) do
      if value then
        ranked[#ranked + 1] = { score = tonumber(value), arm = arms[first + place - 1] }
      end
    end
  end
end

-- The first arms of an interval, so many.
local function add_first(ranked, sorted_set, count)
  local top = redis.call("ZRANGE", sorted_set, 0, count - 1, "WITHSCORES")
  for place = 1, #top, 2 do
    local arm = struct.unpack(">I4", top[place])
    ranked[#ranked + 1] = { score = tonumber(top[place + 1]), arm = arm }
  end
end

-- The arms allowed that have a ball at x, best first; of all live ones as many as are wanted, and
-- one more.
function score.ranked(t, x, allowed)
  local ranked = {}
  for depth = 0, t.depth do
    local sorted_set = key.active(t.base, depth, interval.index(x, depth))
    if allowed.arms then
      add_listed(ranked, sorted_set, allowed.arms)
    else
      add_first(ranked, sorted_set, allowed.wanted + 1)
    end
  end
  table.sort(ranked, function(one, other)
    return one.score < other.score or (one.score == other.score and one.arm < other.arm)
  end)
  return ranked
end

-- Ranks a ball of a live arm by its UCB.
function score.rank(t, c, place)
  local depth, index = c.depths[place], c.indexes[place]
  place_in(key.active(t.base, depth, index), c.ucbs[place], c.arm)
  interval.refresh(t.base, depth, index)
end

-- Ranks a ball by its mean.
function score.rank_mean(t, c, place)
  local depth, index = c.depths[place], c.indexes[place]
  if place_in(key.means(t.base, depth, index), c.means[place], c.arm) > 0 then
    interval.refresh(t.base, depth, index)
  end
end

-- Ranks a ball by its UCB again, or no longer, as its arm is live or not.
function score.settle(t, c, place)
  if catalogue.is_live(t, c.arm) then
    return score.rank(t, c, place)
  end
  local depth, index = c.depths[place], c.indexes[place]
  redis.call("ZREM", key.active(t.base, depth, index), member(c.arm))
  interval.refresh(t.base, depth, index)
end

-- Takes a ball that is split out of both rankings.
function score.leave(t, c, place)
  local depth, index = c.depths[place], c.indexes[place]
  redis.call("ZREM", key.active(t.base, depth, index), member(c.arm))
  redis.call("ZREM", key.means(t.base, depth, index), member(c.arm))
  interval.refresh(t.base, depth, index)
end

function score.noise(m, width)
  local rise = m.lipschitz * width
  return m.variance + rise * rise / 12
end

function score.ucb(t, m, mean, variance, flying, noise)
  local answered = (m.rewards + TRUSTED) / (t.trials + TRUSTED)
  variance = variance / (1 + answered * flying * variance / noise)
  local reach = min(sqrt(variance) / m.lipschitz, 1)
  local share = variance / noise * m.future * reach / t.arms
  return mean + t.confidence * sqrt(2 * variance * log(1 + share))
end

-- The balls' widths, their centres, and the noise of a reward in them.
local function measures(m, c)
  local widths, centres, noises = {}, {}, {}
  for place = 1, c.balls do
    local width = curve.width(c, place)
    widths[place], centres[place] = width, curve.centre(c, place)
    noises[place] = score.noise(m, width)
  end
  return widths, centres, noises
end

-- The bounds, none above what the slope L allows from any other ball of the curve.
local function bounds(t, m, c, widths, centres, noises)
  local lipschitz, balls = m.lipschitz, c.balls
  local ucbs, limits = {}, {}
  local limit, last = math.huge, 0
  for place = 1, balls do
    local flying = c.flying_left[place] + c.flying_right[place]
    local ucb = score.ucb(t, m, c.means[place], c.variances[place], flying, noises[place])
    limit = min(ucb, limit + lipschitz * (centres[place] - last))
    ucbs[place], limits[place], last = ucb, limit, centres[place]
  end
  for place = balls, 1, -1 do
    limit = min(limits[place], limit + lipschitz * (last - centres[place]))
    ucbs[place] = min(ucbs[place], limit + lipschitz * widths[place] / 2)
    last = centres[place]
  end
  return ucbs
end

-- The arm's balls whose bounds have moved are ranked; the ones that lead, or led, in their
-- intervals are noted there.
local function rank_moved(t, c, moved)
  local fields = {}
  for number, place in ipairs(moved) do
    local depth, index = c.depths[place], c.indexes[place]
    fields[number] = interval.field("a", depth, index)
    place_in(key.active(t.base, depth, index), c.ucbs[place], c.arm)
  end
  local leaders = redis.call("HMGET", key.path(t.base), unpack(fields))
  for number, place in ipairs(moved) do
    if interval.outdated(leaders[number], -c.ucbs[place], c.arm) then
      interval.refresh(t.base, c.depths[place], c.indexes[place])
    end
  end
end

-- Notes what a reward may do to the bounds of a curve.
function score.note(m, c, place, reward)
  local variance, noise = c.variances[place], score.noise(m, curve.width(c, place))
  local share = variance / (variance + noise)
  c.news = c.news + variance / noise
  c.drift = c.drift + share * (math.abs(reward - c.means[place]) + sqrt(variance))
end

-- Whether what was noted is enough.
function score.due(c)
  return c.reshaped or (c.news >= NEWS and c.drift > MOVED)
end

-- Scores all balls of a curve and saves it.
function score.curve(t, m, c)
  local widths, centres, noises = measures(m, c)
  posterior.estimate(m, c, widths, centres, noises)
  local moved = {}
  for place, ucb in ipairs(bounds(t, m, c, widths, centres, noises)) do
    if math.abs(ucb - c.ucbs[place]) > MOVED then
      c.ucbs[place] = ucb
      moved[#moved + 1] = place
    end
  end
  if #moved > 0 and catalogue.is_live(t, c.arm) then
    rank_moved(t, c, moved)
  end
  c.step, c.news, c.drift = m.step, 0, 0
  curve.save(t.base, c)
end
