-- include: tenant interval catalogue curve posterior model
-- What the balls of a curve may be worth at the most, as in algorithm/adaptive.py, and how they are
-- ranked by it.
--
-- The sorted set `active` of an interval has the arms with a ball there at minus the ball's UCB,
-- `means` those whose ball has had a reward at minus the ball's mean then. Members are arms,
-- big-endian, so that equal scores are ordered by arm.
local score = {}

local TRUSTED = 1000
local MOVED, MOVED_SHARE = 1e-4, 0.1
local NEWS, DRIFT = 0.1, 1e-3
local CAUTION = 0.35
-- So few arms are looked up one by one; of more, some that rank high are likely to be allowed.
local FEW = 64
local PORTION, LARGEST_PORTION = 32, 1024
local abs, log, min, sqrt = math.abs, math.log, math.min, math.sqrt

local function member(arm)
  return struct.pack(">I4", arm)
end

-- Returns 1 if this is new, 0 if it was so before.
local function place_in(sorted_set, value, arm)
  return redis.call("ZADD", sorted_set, "CH", string.format("%.17g", -value), member(arm))
end

-- Puts an arm in its place among those ranked, best first, and drops the last of too many. Tells
-- whether the arm is one of them.
local function add(ranked, most, value, arm)
  local place = #ranked + 1
  while
    place > 1
    and (
      value < ranked[place - 1].score
      or (value == ranked[place - 1].score and arm < ranked[place - 1].arm)
    )
  do
    place = place - 1
  end
  if place > most then
    return false
  end
  table.insert(ranked, place, { score = value, arm = arm })
  ranked[most + 1] = nil
  return true
end

-- Looks the arms of the list up in an interval.
local function add_listed(ranked, most, sorted_set, arms)
  local members = {}
  for place, arm in ipairs(arms) do
    members[place] = member(arm)
  end
  for place, value in ipairs(redis.call("ZMSCORE", sorted_set, unpack(members))) do
    if value then
      add(ranked, most, tonumber(value), arms[place])
    end
  end
end

-- Walks over the arms of an interval from the best one on, while some may be among those ranked.
local function add_passed(ranked, most, sorted_set, allowed)
  local worst = ranked[most] and string.format("%.17g", ranked[most].score) or "inf"
  local last = redis.call("ZCOUNT", sorted_set, "-inf", worst)
  local from, size = 0, PORTION
  while from < last do
    for _, one in ipairs(redis.call("ZRANGE", sorted_set, from, min(from + size, last) - 1)) do
      local arm = struct.unpack(">I4", one)
      if allowed.has(arm) then
        local value = tonumber(redis.call("ZSCORE", sorted_set, one))
        if not add(ranked, most, value, arm) then
          return
        end
      end
    end
    from, size = from + size, min(2 * size, LARGEST_PORTION)
  end
end

local function add_first(ranked, most, sorted_set)
  local top = redis.call("ZRANGE", sorted_set, 0, most - 1, "WITHSCORES")
  for place = 1, #top, 2 do
    add(ranked, most, tonumber(top[place + 1]), (struct.unpack(">I4", top[place])))
  end
end

-- The arms allowed that have a ball at x, best first: as many as are wanted, and one more.
function score.ranked(t, x, allowed)
  local ranked, most = {}, allowed.wanted + 1
  for depth = 0, t.depth do
    local sorted_set = key.active(t.base, depth, interval.index(x, depth))
    if not allowed.arms then
      add_first(ranked, most, sorted_set)
    elseif #allowed.arms <= FEW then
      add_listed(ranked, most, sorted_set, allowed.arms)
    else
      add_passed(ranked, most, sorted_set, allowed)
    end
  end
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

-- A function that tells the UCB of a ball by its mean and variance, its plays in flight, and the
-- noise.
function score.ucb_by(t, m)
  local answered = (m.rewards + TRUSTED) / (t.trials + TRUSTED)
  local lipschitz, steepness, future = m.lipschitz, m.steepness, m.future
  local arms, confidence = t.arms, t.confidence
  return function(mean, variance, flying, noise)
    variance = variance / (1 + answered * flying * variance / noise)
    local reach = min(sqrt(variance) / lipschitz, 1) * steepness
    local at_stake = log(1 + variance / noise * future * reach / arms)
    return mean + confidence * (sqrt(2 * variance) * at_stake ^ CAUTION)
  end
end

-- Whether a bound is far enough from the one that the ball has.
function score.moves(c, place, ucb)
  local by = abs(ucb - c.ucbs[place])
  return by > MOVED and by > MOVED_SHARE * (ucb - c.means[place])
end

-- The balls' widths, and their centres, for all at once.
local function measures(c)
  local depths, indexes = c.depths, c.indexes
  local widths, centres = {}, {}
  for place = 1, c.balls do
    local width = 2 ^ -depths[place]
    widths[place], centres[place] = width, indexes[place] * width + width / 2
  end
  return widths, centres
end

-- The noise of a reward in each ball.
local function noises_in(m, c, widths)
  local noises = {}
  for place = 1, c.balls do
    noises[place] = model.noise(m, c, place, widths[place])
  end
  return noises
end

-- The bounds, none above what the slope L allows from any other ball of the curve.
local function bounds(t, m, c, widths, centres, noises)
  local ucb_of, lipschitz, balls = score.ucb_by(t, m), m.lipschitz, c.balls
  local means, variances = c.means, c.variances
  local flying_left, flying_right = c.flying_left, c.flying_right
  local ucbs, limits = {}, {}
  local limit, last = math.huge, 0
  for place = 1, balls do
    local flying, centre = flying_left[place] + flying_right[place], centres[place]
    local ucb = ucb_of(means[place], variances[place], flying, noises[place])
    limit = min(ucb, limit + lipschitz * (centre - last))
    ucbs[place], limits[place], last = ucb, limit, centre
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
  local path, fields, news = key.path(t.base), {}, {}
  for number, place in ipairs(moved) do
    local depth, index = c.depths[place], c.indexes[place]
    fields[number] = interval.field("a", depth, index)
    place_in(key.active(t.base, depth, index), c.ucbs[place], c.arm)
  end
  local leaders = redis.call("HMGET", path, unpack(fields))
  for number, place in ipairs(moved) do
    local outdated, mean = interval.outdated(leaders[number], -c.ucbs[place], c.arm)
    if outdated then
      local packed = interval.packed(t.base, c.depths[place], c.indexes[place], mean)
      news[#news + 1] = fields[number]
      news[#news + 1] = packed
    end
  end
  if #news > 0 then
    redis.call("HSET", path, unpack(news))
  end
end

-- Notes what a reward may do to the bounds of a curve.
function score.note(m, c, place, reward)
  local variance = c.variances[place]
  local noise = model.noise(m, c, place, curve.width(c, place))
  local share = variance / (variance + noise)
  c.news = c.news + variance / noise
  c.drift = c.drift + share * (abs(reward - c.means[place]) + sqrt(variance))
end

-- Whether what was noted is enough.
function score.due(c)
  return c.reshaped or (c.news >= NEWS and c.drift > DRIFT)
end

-- Scores all balls of a curve and saves it.
function score.curve(t, m, c)
  local widths, centres = measures(c)
  local noises = noises_in(m, c, widths)
  local square, known = posterior.estimate(m, c, widths, centres, noises)
  if m.binary then -- the means have moved, and their noise with them
    noises = noises_in(m, c, widths)
  end
  local moved = {}
  for place, ucb in ipairs(bounds(t, m, c, widths, centres, noises)) do
    if score.moves(c, place, ucb) then
      c.ucbs[place] = ucb
      moved[#moved + 1] = place
    end
  end
  c.changed.means, c.changed.variances = true, true
  c.changed.ucbs = c.changed.ucbs or #moved > 0
  if #moved > 0 and catalogue.is_live(t, c.arm) then
    rank_moved(t, c, moved)
  end
  c.step, c.news, c.drift = m.step, 0, 0
  model.learn_steepness(m, c, square, known)
  curve.save(t.base, c)
end
