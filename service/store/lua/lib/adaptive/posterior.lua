-- include: curve
-- What the rewards of a curve tell of its balls, as in algorithm/curve.py.
local posterior = {}

local PRIOR_MEAN, PRIOR_VARIANCE = curve.PRIOR_MEAN, curve.PRIOR_VARIANCE
local STEEPNESS, PERSISTENCE = 2.0, 0.03
local LARGE_SLOPES, LEAST_VARIANCE = 4.0, 1e-15

-- Means and variances: a filter over the balls from left to right, and what comes back. Returns the
-- square of the slopes on average, and which share of it is known.
function posterior.estimate(m, c, widths, centres, noises)
  local average = m.total / math.max(m.rewards, 1)
  local scale = math.max(average * average, 1)
  local prior = PRIOR_VARIANCE * scale
  local steepest = STEEPNESS * m.lipschitz * STEEPNESS * m.lipschitz
  local steep = steepest * m.steepness
  local balls = c.balls
  local counts_left, counts_right = c.counts_left, c.counts_right
  local totals_left, totals_right = c.totals_left, c.totals_right
  local means, variances = c.means, c.variances
  local seen_shared, lefts, gains, pushes, reaches, keeps = {}, {}, {}, {}, {}, {}
  local slopes, slope_variances = {}, {}
  local mean, slope = PRIOR_MEAN, 0
  local variance, shared, slope_variance = scale, 0, steep
  local last = centres[1]
  for place = 1, balls do
    local centre = centres[place]
    local gap = centre - last
    last = centre
    local keep = math.exp(-gap / PERSISTENCE)
    local reach = PERSISTENCE * (1 - keep)
    mean, slope = mean + reach * slope, keep * slope
    variance = variance + reach * (2 * shared + reach * slope_variance)
    variance = variance + steep * PERSISTENCE * (2 * gap - reach * (3 - keep))
    shared = keep * (shared + reach * slope_variance) + steep * reach * (1 - keep)
    slope_variance = keep * keep * slope_variance + steep * (1 - keep * keep)

    local width, noise = widths[place], noises[place]
    local weight = (counts_left[place] + counts_right[place]) / noise + width / prior
    local pull = (totals_left[place] + totals_right[place]) / noise + PRIOR_MEAN * width / prior
    local left = 1 / (1 + variance * weight)
    local gain, push = weight * left, (pull - weight * mean) * left
    means[place], variances[place], seen_shared[place] = mean, variance, shared
    slopes[place], slope_variances[place] = slope, slope_variance
    lefts[place], gains[place], pushes[place] = left, gain, push
    reaches[place], keeps[place] = reach, keep
    mean, slope = mean + variance * push, slope + shared * push
    slope_variance = slope_variance - shared * shared * gain
    variance, shared = variance * left, shared * left
  end

  local news, slope_news, sure, sure_shared, sure_slope = 0, 0, 0, 0, 0
  local square, slopes_known = 0, 0
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
    slope_variance = slope_variances[place]
    slope = slopes[place] + (shared * news + slope_variance * slope_news)
    known = shared * (shared * sure + 2 * slope_variance * sure_shared)
    known = known + slope_variance * slope_variance * sure_slope
    square = square + widths[place] * slope * slope / steepest
    local share = 1 - (slope_variance - known) / steep
    slopes_known = slopes_known + widths[place] * (share > 0 and share or 0)
    slope_news = reach * news + keep * slope_news
    sure_slope = reach * (reach * sure + 2 * keep * sure_shared) + keep * keep * sure_slope
    sure_shared = reach * sure + keep * sure_shared
  end
  return math.min(square, LARGE_SLOPES), slopes_known
end
