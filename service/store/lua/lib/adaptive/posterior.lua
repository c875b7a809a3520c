-- include: curve model
-- What the rewards of a curve tell of its balls, as in algorithm/curve.py.
local posterior = {}

local PRIOR_MEAN, PRIOR_VARIANCE = curve.PRIOR_MEAN, curve.PRIOR_VARIANCE
local NUMBERS, COUNTS, TOTALS = curve.NUMBERS, curve.COUNTS, curve.TOTALS
local MEAN, VARIANCE = curve.MEAN, curve.VARIANCE
local STEEPNESS, PERSISTENCE = 3.0, 0.3
local LARGE_BENDS, LEAST_VARIANCE = 4.0, 1e-15

-- What happens on the way from one ball to the next: how much of a slope is left, how far it
-- carries, and what mean and slope change by (variances, and covariance).
local function way(gap, steep, persistence)
  local keep = math.exp(-gap / persistence)
  local reach = persistence * (1 - keep)
  local drift = steep * persistence * (2 * gap - reach * (3 - keep))
  return { keep, reach, drift, steep * reach * (1 - keep), steep * (1 - keep * keep) }
end

-- Means and variances: a filter over the balls from left to right, and what comes back. Returns how
-- much the curve bends, and how much would be expected of what its rewards can tell.
function posterior.estimate(m, c, widths, centres, noises)
  local average = m.total / math.max(m.rewards, 1)
  local scale = math.max(average * average, 1)
  local prior = PRIOR_VARIANCE * scale
  local steep = STEEPNESS * STEEPNESS * model.slopes(m)
  local persistence = PERSISTENCE / math.max(m.lipschitz, 1)
  local balls, values, at = c.balls, c.values, 0
  local seen_shared, lefts, gains, pushes = {}, {}, {}, {}
  local ways, ways_by_gap = {}, {} -- few gaps differ
  local mean, slope = PRIOR_MEAN, 0
  local variance, shared, slope_variance = scale, 0, steep
  local last = centres[1]
  for place = 1, balls do
    local centre = centres[place]
    local gap = centre - last
    last = centre
    local here = ways_by_gap[gap]
    if not here then
      here = way(gap, steep, persistence)
      ways_by_gap[gap] = here
    end
    ways[place] = here
    local keep, reach = here[1], here[2]
    mean, slope = mean + reach * slope, keep * slope
    variance = variance + (reach * (2 * shared + reach * slope_variance) + here[3])
    shared = keep * (shared + reach * slope_variance) + here[4]
    slope_variance = keep * keep * slope_variance + here[5]

    local width, noise = widths[place], noises[place]
    local count = values[at + COUNTS] + values[at + COUNTS + 1]
    local total = values[at + TOTALS] + values[at + TOTALS + 1]
    local weight = count / noise + width / prior
    local pull = total / noise + PRIOR_MEAN * width / prior
    local left = 1 / (1 + variance * weight)
    local gain, push = weight * left, (pull - weight * mean) * left
    values[at + MEAN], values[at + VARIANCE], seen_shared[place] = mean, variance, shared
    at = at + NUMBERS
    lefts[place], gains[place], pushes[place] = left, gain, push
    mean, slope = mean + variance * push, slope + shared * push
    slope_variance = slope_variance - shared * shared * gain
    variance, shared = variance * left, shared * left
  end

  local news, slope_news, sure, sure_shared, sure_slope = 0, 0, 0, 0, 0
  local square, known = 0, 0
  for place = balls, 1, -1 do
    local left, gain, here = lefts[place], gains[place], ways[place]
    local keep, reach, drift, both, bend = here[1], here[2], here[3], here[4], here[5]
    at = at - NUMBERS
    variance, shared = values[at + VARIANCE], seen_shared[place]
    local lean = shared * gain
    news = left * news - lean * slope_news + pushes[place]
    sure = left * left * sure - lean * (2 * left * sure_shared - lean * sure_slope) + gain
    sure_shared = left * sure_shared - lean * sure_slope
    values[at + MEAN] = values[at + MEAN] + variance * news + shared * slope_news
    local told = variance * (variance * sure + 2 * shared * sure_shared)
    told = told + shared * shared * sure_slope
    variance = variance - told
    values[at + VARIANCE] = variance > LEAST_VARIANCE and variance or LEAST_VARIANCE
    square = square
      + (news * (drift * news + 2 * both * slope_news) + bend * slope_news * slope_news)
    known = known + (drift * sure + 2 * both * sure_shared + bend * sure_slope)
    slope_news = reach * news + keep * slope_news
    sure_slope = reach * (reach * sure + 2 * keep * sure_shared) + keep * keep * sure_slope
    sure_shared = reach * sure + keep * sure_shared
  end
  square = square + steep * slope_news * slope_news
  known = known + steep * sure_slope
  return math.min(square, LARGE_BENDS * known), known
end
