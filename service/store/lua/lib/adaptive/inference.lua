-- include: curve model
-- What rewards tell of the noise, of how steep curves are, and of how many are still to come, as in
-- algorithm/model.py.
local inference = {}

local AHEAD = 2
local LEAST_NOISE, EVIDENCE, MOST_EVIDENCE = 1e-12, 4.0, 64.0
local LARGE_SQUARE, SURPRISE = 0.5, 25.0
local LEAST_EXPECTED = 0.05
local SURELY, RISE, STEEPEST = 2.0, 2.0, 16.0
local FLATTEST, MOST_BENT = 1 / 64, 2.0
local BENT_SHARE, BENT_POWER, BENT_MARGIN, BENT_KNOWN = 0.25, 0.2, 1.2, 10.0
local BENT_PAUSE = 1.1
local CROWD, FEW_POWER = model.CROWD, 0.8
local FLATTEST_OF_FEW, FEW_REWARDS = 1 / 8, 4000
local TOO_BENT = 0.45
local STEP = math.sqrt(2)

-- From what a reward differs from those before it in the ball at this place.
function inference.learn_noise(t, m, c, place, reward, weight)
  local count = curve.sum(c, place, curve.COUNTS)
  if count < 1 then
    return
  end
  local residual = reward - curve.sum(c, place, curve.TOTALS) / count
  local square = residual * residual * count / (count + 1)
  square = math.min(square, math.max(SURPRISE * m.variance, LARGE_SQUARE))
  if m.binary then
    local mean = curve.get(c, place, curve.MEAN)
    square = square / (4 * math.max(mean * (1 - mean), LEAST_EXPECTED))
  end
  m.evidence = m.evidence + weight
  m.squares = m.squares + weight * square
  local variance = math.max(m.squares / m.evidence, LEAST_NOISE)
  if m.evidence < EVIDENCE then
    return
  end
  m.loudest = math.max(m.loudest, variance)
  local moved = math.max(variance / m.variance, m.variance / variance)
  if moved > STEP then
    m.variance = variance
    m.evidence, m.squares = 0, 0
    model.take_lipschitz(t, m)
    model.begin_step(m)
  elseif m.evidence >= MOST_EVIDENCE then
    m.evidence, m.squares = m.evidence / 2, m.squares / 2
  end
end

local function mean_and_deviation(c, place)
  return curve.get(c, place, curve.MEAN), math.sqrt(curve.get(c, place, curve.VARIANCE))
end

local function take_steeper(t, m)
  local steeper = math.min(m.lipschitz * STEP, STEEPEST)
  if steeper > m.shown_lipschitz then
    m.shown_lipschitz = steeper
    model.take_lipschitz(t, m)
    model.begin_step(m)
  end
end

-- A mean that is surely above what L allows from another ball shows L to be too small.
function inference.learn_slope(t, m, c, place)
  if model.awaits_noise(m) then
    return
  end
  local unsure = SURELY
  if not m.noise_is_told then
    unsure = unsure * math.sqrt(m.loudest / m.variance)
  end
  local centre, limit = curve.centre(c, place), math.huge
  for other = 1, c.balls do
    local mean, deviation = mean_and_deviation(c, other)
    local away = math.abs(curve.centre(c, other) - centre)
    limit = math.min(limit, mean + unsure * deviation + m.lipschitz * away)
  end
  local mean, deviation = mean_and_deviation(c, place)
  local at_least = mean - unsure * deviation
  if at_least > limit + RISE * m.lipschitz * curve.width(c, place) then
    take_steeper(t, m)
  end
end

-- Whether L is learned from bends, too: where noise hides it, if that is known.
local function bends_tell_slopes(t, m)
  return m.steepness == MOST_BENT and model.hides_slopes(t, m) and model.noise_is_known(m)
end

local function take_steepness(m, steepness)
  m.steepness = steepness
  model.begin_step(m)
  m.bent_at = m.rewards
end

-- From what a curve was known to bend, and is now; once as many have been scored as are, and for L
-- once all arms there ever were have been looked at. What may be noise makes no curve steeper.
function inference.learn_steepness(t, m, c, square, known)
  m.bend_squares = m.bend_squares + (square - c.bend_square)
  m.bends_known = m.bends_known + (known - c.bend_known)
  c.bend_square, c.bend_known = square, known
  if m.cursor < m.tried or m.rewards < BENT_PAUSE * m.bent_at then
    return
  end
  local few = math.max(CROWD / (t.arms * math.sqrt(math.max(m.lipschitz, 1))), 1)
  local flattest = FLATTEST
  if few > 1 then
    local rewards = math.max(m.rewards, FEW_REWARDS)
    flattest = math.max(FLATTEST, FLATTEST_OF_FEW * FEW_REWARDS / rewards)
  end
  local usual = BENT_SHARE * few ^ FEW_POWER * m.steepness ^ -BENT_POWER
  local share = (BENT_KNOWN * usual + m.bend_squares) / (BENT_KNOWN + m.bends_known)
  local is_bent = share > usual * BENT_MARGIN and not model.awaits_noise(m)
  if share < usual / BENT_MARGIN and m.steepness > flattest then
    take_steepness(m, m.steepness / 2)
  elseif is_bent and m.steepness < MOST_BENT then
    take_steepness(m, m.steepness * 2)
  elseif share > TOO_BENT and m.cursor >= t.arms_ever and bends_tell_slopes(t, m) then
    take_steeper(t, m)
  end
end

-- Without a horizon it grows with the past; one that is over is doubled.
function inference.look_ahead(t, m)
  local ahead = t.horizon == "" and AHEAD or 1
  if m.rewards * ahead >= m.horizon then
    m.horizon = m.horizon * 2
    model.begin_step(m)
  end
end
