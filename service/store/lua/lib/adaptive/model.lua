-- include: curve
-- What a tenant of the preset `adaptive` has learned beyond single arms: a packed field of its
-- hash; the same layout as records.py.
local model = { CROWD = 50 }

local COUNTS, NUMBERS = "<BI4I4I4I4I4d", "<ddddd"
local LEARNED = "<ddddddd"
local LEAST_BINARY, FIRST_BINARY = 0.01, 0.005
local LOUD, CAUTIOUS = 0.005, 2.0

function model.load(t)
  local m = {}
  local rest
  m.binary, m.step, m.cursor, m.tried, m.fresh, m.arms_rewarded, m.rewards, rest =
    struct.unpack(COUNTS, t.model)
  m.total, m.first_rewards, m.variance, m.shown_lipschitz, m.horizon, rest =
    struct.unpack(NUMBERS, t.model, rest)
  m.loudest, m.evidence, m.squares, m.steepness, m.bent_at, m.bend_squares, m.bends_known =
    struct.unpack(LEARNED, t.model, rest)
  m.binary, m.noise_is_told = m.binary == 1, t.noise ~= "auto"
  model.take_lipschitz(t, m)
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
    m.shown_lipschitz,
    m.horizon,
    m.loudest,
    m.evidence,
    m.squares,
    m.steepness,
    m.bent_at,
    m.bend_squares,
    m.bends_known
  )
  redis.call("HSET", t.key, "model", t.model)
end

-- Whether L is to be learned, and rewards are too loud to show it.
function model.hides_slopes(t, m)
  return t.lipschitz == "auto" and m.variance > LOUD
end

-- L as it was told, or as rewards have shown it; where they are too loud to show it, rather more.
function model.take_lipschitz(t, m)
  m.lipschitz = m.shown_lipschitz
  if model.hides_slopes(t, m) then
    m.lipschitz = math.max(m.shown_lipschitz, CAUTIOUS)
  end
end

-- Whether the noise is to be learned, and rewards have not told enough of it yet.
function model.awaits_noise(m)
  return not m.noise_is_told and m.loudest == 0
end

-- Rewards of 0 or 1 whose noise is learned are taken for less noisy than they are.
function model.noise_is_known(m)
  return m.noise_is_told or not m.binary
end

-- How many times the variance a slope has beforehand that it has where L is 1. Where the noise is
-- not known, an L that was taken by caution makes slopes no larger.
function model.slopes(m)
  local lipschitz = model.noise_is_known(m) and m.lipschitz or m.shown_lipschitz
  return lipschitz * lipschitz * m.steepness
end

-- All bounds have moved: the curves are scored again, some with each reward.
function model.begin_step(m)
  m.step = m.step + 1
  m.cursor = 0
  m.bent_at = 0
end

-- The variance of a reward at the centre of the ball at this place.
function model.reward_variance(m, c, place)
  if not m.binary then
    return m.variance
  end
  if model.awaits_noise(m) then
    return FIRST_BINARY
  end
  local mean = curve.get(c, place, curve.MEAN)
  local unsure = math.sqrt(curve.get(c, place, curve.VARIANCE))
  mean = math.min(math.max(0.5, mean - unsure), mean + unsure)
  return math.min(m.variance, math.max(mean * (1 - mean), LEAST_BINARY))
end

-- The variance of a reward around the mean of the ball at this place, which is this wide.
function model.noise(m, c, place, width)
  local rise = m.lipschitz * width
  return model.reward_variance(m, c, place) + rise * rise / 12
end

-- How much so many rewards tell of what a curve rises by within a ball this wide.
function model.told(m, count, width)
  local rise = m.lipschitz * width
  return count * math.sqrt(count) * rise * rise
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
      model.begin_step(m)
    end
  end
end
