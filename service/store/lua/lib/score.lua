-- include: tenant interval curve
-- What the balls of a curve are worth: mean, variance and upper bound, as in algorithm/adaptive.py
-- and algorithm/curve.py.
--
-- The sorted set `active` of an interval has the arms with a ball there at minus the ball's UCB,
-- `means` those whose ball has had a reward at minus the ball's mean then. Members are arms,
-- big-endian, so that equal scores are ordered by arm.
local score = { PRIOR_MEAN = 0.5, PRIOR_VARIANCE = 1 / 12 }

local PRIOR_MEAN, PRIOR_VARIANCE = score.PRIOR_MEAN, score.PRIOR_VARIANCE
local STEEPNESS, PERSISTENCE = 2.0, 0.03
local LEAST_VARIANCE = 1e-15
local TRUSTED, MOVED, NEWS = 1000, 1e-4, 0.02
local exp, log, min, sqrt = math.exp, math.log, math.min, math.sqrt

local function member(arm)
  return struct.pack(">I4", arm)
end

-- Returns 1 if this is new, 0 if it was so before.
local function place_in(sorted_set, value, arm)
  return redis.call("ZADD", sorted_set, "CH", string.format("%.17g", -value), member(arm))
end

-- Ranks a ball by its UCB.
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

-- Means and variances: a filter over the balls from left to right, and what comes back.
local function estimate(m, c, widths, centres, noises)
  local average = m.total / m.rewards
  local scale = math.max(average * average, 1)
  local prior = PRIOR_VARIANCE * scale
  local steepness = STEEPNESS * m.lipschitz * STEEPNESS * m.lipschitz
  local balls = c.balls
  local counts_left, counts_right = c.counts_left, c.counts_right
  local totals_left, totals_right = c.totals_left, c.totals_right
  local means, variances = c.means, c.variances
  local seen_shared, lefts, gains, pushes, reaches, keeps = {}, {}, {}, {}, {}, {}
  local mean, slope = PRIOR_MEAN, 0
  local variance, shared, slope_variance = scale, 0, steepness
  local last = centres[1]
  for place = 1, balls do
    local centre = centres[place]
    local gap = centre - last
    last = centre
    local keep = exp(-gap / PERSISTENCE)
    local reach = PERSISTENCE * (1 - keep)
    mean, slope = mean + reach * slope, keep * slope
    variance = variance + reach * (2 * shared + reach * slope_variance)
    variance = variance + steepness * PERSISTENCE * (2 * gap - reach * (3 - keep))
    shared = keep * (shared + reach * slope_variance) + steepness * reach * (1 - keep)
    slope_variance = keep * keep * slope_variance + steepness * (1 - keep * keep)

    local width, noise = widths[place], noises[place]
    local weight = (counts_left[place] + counts_right[place]) / noise + width / prior
    local pull = (totals_left[place] + totals_right[place]) / noise + PRIOR_MEAN * width / prior
    local left = 1 / (1 + variance * weight)
    local gain, push = weight * left, (pull - weight * mean) * left
    means[place], variances[place], seen_shared[place] = mean, variance, shared
    lefts[place], gains[place], pushes[place] = left, gain, push
    reaches[place], keeps[place] = reach, keep
    mean, slope = mean + variance * push, slope + shared * push
    slope_variance = slope_variance - shared * shared * gain
    variance, shared = variance * left, shared * left
  end

  local news, slope_news, sure, sure_shared, sure_slope = 0, 0, 0, 0, 0
  for place = balls, 1, -1 do
    local left, gain, keep, reach = lefts[place], gains[place], keeps[place], reaches[place]
    variance, shared = variances[place], seen_shared[place]
    local lean = shared * gain
    news = left * news - lean * slope_news + pushes[place]
    sure = left * left * sure - lean * (2 * left * sure_shared - lean * sure_slope) + gain
    sure_shared = left * sure_shared - lean * sure_slope
    means[place] = means[place] + variance * news + shared * slope_news
    local known = variance * (variance * sure + 2 * shared * sure_shared)
    known = known + shared * shared * sure_slope
    variance = variance - known
    variances[place] = variance > LEAST_VARIANCE and variance or LEAST_VARIANCE
    slope_news = reach * news + keep * slope_news
    sure_slope = reach * (reach * sure + 2 * keep * sure_shared) + keep * keep * sure_slope
    sure_shared = reach * sure + keep * sure_shared
  end
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
  estimate(m, c, widths, centres, noises)
  local moved = {}
  for place, ucb in ipairs(bounds(t, m, c, widths, centres, noises)) do
    if math.abs(ucb - c.ucbs[place]) > MOVED then
      c.ucbs[place] = ucb
      moved[#moved + 1] = place
    end
  end
  if #moved > 0 then
    rank_moved(t, c, moved)
  end
  c.step, c.news, c.drift = m.step, 0, 0
  curve.save(t.base, c)
end
