-- include: curve
-- What a tenant of the preset `adaptive` has learned beyond single arms: a packed field of its
-- hash; the same layout as records.py.
local model = {}

local COUNTS, NUMBERS = "<BI4I4I4I4I4d", "<ddddd"
local LEARNED = "<dddddd"
local FUTURE = 2
local LEAST_NOISE, EVIDENCE, MOST_EVIDENCE = 1e-12, 4.0, 64.0
local LARGE_SQUARE, SURPRISE = 0.5, 25.0
local LEAST_BINARY, LEAST_EXPECTED = 0.01, 0.05
local SURELY, RISE, STEEPEST = 2.0, 2.0, 16.0
local FLATTEST = 0.05
local STEP = math.sqrt(2)

function model.load(t)
  local m = {}
  local rest
  m.binary, m.step, m.cursor, m.tried, m.fresh, m.arms_rewarded, m.rewards, rest =
    struct.unpack(COUNTS, t.model)
  m.total, m.first_rewards, m.variance, m.lipschitz, m.future, rest =
    struct.unpack(NUMBERS, t.model, rest)
  m.loudest, m.evidence, m.squares, m.steepness, m.slope_squares, m.slopes_known =
    struct.unpack(LEARNED, t.model, rest)
  m.binary = m.binary == 1
  return m
end

function model.save(t, m)
  t.model = struct.pack(
    COUNTS .. string.sub(NUMBERS, 2) .. string.sub(LEARNED, 2),
    m.binary and 1 or 0,
    m.step,
    m.cursor,
    m.tried,
    m.fresh,
    m.arms_rewarded,
    m.rewards,
    m.total,
    m.first_rewards,
    m.variance,
    m.lipschitz,
    m.future,
    m.loudest,
    m.evidence,
    m.squares,
    m.steepness,
    m.slope_squares,
    m.slopes_known
  )
  redis.call("HSET", t.key, "model", t.model)
end

-- All bounds have moved: the curves are scored again, some with each reward.
local function begin_step(m)
  m.step = m.step + 1
  m.cursor = 0
end

-- The variance of a reward at the centre of the ball at this place.
function model.reward_variance(m, c, place)
  if not m.binary then
    return m.variance
  end
  local mean, unsure = c.means[place], math.sqrt(c.variances[place])
  mean = math.min(math.max(0.5, mean - unsure), mean + unsure)
  return math.min(m.variance, math.max(mean * (1 - mean), LEAST_BINARY))
end

-- The variance of a reward around the mean of the ball at this place, which is this wide.
function model.noise(m, c, place, width)
  local rise = m.lipschitz * width
  return model.reward_variance(m, c, place) + rise * rise / 12
end

-- One more reward; the first of its arm, or not.
function model.count(m, reward, is_first)
  m.rewards = m.rewards + 1
  m.total = m.total + reward
  if is_first then
    m.first_rewards = m.first_rewards + reward
    m.arms_rewarded = m.arms_rewarded + 1
  end
  if m.binary and reward ~= 0 and reward ~= 1 then
    m.binary = false
    if m.rewards > 1 then
      begin_step(m)
    end
  end
end

-- From what a reward differs from those before it in the ball at this place.
function model.learn_noise(m, c, place, reward, weight)
  local count = c.counts_left[place] + c.counts_right[place]
  if count < 1 then
    return
  end
  local residual = reward - (c.totals_left[place] + c.totals_right[place]) / count
  local square = residual * residual * count / (count + 1)
  square = math.min(square, math.max(SURPRISE * m.variance, LARGE_SQUARE))
  if m.binary then
    local mean = c.means[place]
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
    begin_step(m)
  elseif m.evidence >= MOST_EVIDENCE then
    m.evidence, m.squares = m.evidence / 2, m.squares / 2
  end
end

-- A mean that is surely above what L allows from another ball shows L to be too small.
function model.learn_slope(t, m, c, place)
  local unsure = SURELY
  if t.noise == "auto" then
    if m.loudest == 0 then
      return
    end
    unsure = unsure * math.sqrt(m.loudest / m.variance)
  end
  local centre, limit = curve.centre(c, place), math.huge
  for other = 1, c.balls do
    local away = math.abs(curve.centre(c, other) - centre)
    local at_most = c.means[other] + unsure * math.sqrt(c.variances[other]) + m.lipschitz * away
    limit = math.min(limit, at_most)
  end
  local at_least = c.means[place] - unsure * math.sqrt(c.variances[place])
  local steeper = math.min(m.lipschitz * STEP, STEEPEST)
  if at_least > limit + RISE * m.lipschitz * curve.width(c, place) and steeper > m.lipschitz then
    m.lipschitz = steeper
    begin_step(m)
  end
end

-- From what the slopes of a curve were known to be, and are now.
function model.learn_steepness(m, c, square, known)
  m.slope_squares = m.slope_squares + (square - c.slope_square)
  m.slopes_known = m.slopes_known + (known - c.slope_known)
  c.slope_square, c.slope_known = square, known
  local steepness = (1 + m.slope_squares) / (1 + m.slopes_known)
  steepness = math.min(math.max(steepness, FLATTEST), 1)
  if math.max(steepness / m.steepness, m.steepness / steepness) > STEP then
    m.steepness = steepness
    begin_step(m)
  end
end

-- Without a horizon, the future grows with the past.
function model.look_ahead(t, m)
  if t.horizon == "" and m.rewards * FUTURE >= m.future then
    m.future = m.future * 2
    begin_step(m)
  end
end
