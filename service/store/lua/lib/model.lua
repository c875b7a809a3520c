-- What a tenant of the preset `adaptive` has learned beyond single arms: a packed field of its
-- hash; the same layout as records.py.
local model = {}

local COUNTS, NUMBERS = "<I4I4I4I4d", "<dddddd"
local FUTURE = 16
local LEAST_VARIANCE, EVIDENCE, MOST_EVIDENCE, SURPRISE = 1e-12, 4.0, 64.0, 25.0
local STEP = math.sqrt(2)

function model.load(t)
  local m = {}
  local rest
  m.step, m.cursor, m.tried, m.arms_rewarded, m.rewards, rest = struct.unpack(COUNTS, t.model)
  m.total, m.first_rewards, m.variance, m.future, m.evidence, m.squares =
    struct.unpack(NUMBERS, t.model, rest)
  return m
end

function model.save(t, m)
  local packed = struct.pack(
    COUNTS .. string.sub(NUMBERS, 2),
    m.step,
    m.cursor,
    m.tried,
    m.arms_rewarded,
    m.rewards,
    m.total,
    m.first_rewards,
    m.variance,
    m.future,
    m.evidence,
    m.squares
  )
  redis.call("HSET", t.key, "model", packed)
end

-- All bounds have moved: the curves are scored again, some with each reward.
local function begin_step(m)
  m.step = m.step + 1
  m.cursor = 0
end

-- From what a reward differs from the mean of its ball.
function model.learn_noise(m, b, reward, noise, weight)
  local residual = reward - b.mean
  local expected = noise + b.variance
  local square = math.min(residual * residual, SURPRISE * expected)
  local share = noise / expected
  local own = (share * share * square + b.variance * share) * m.variance / noise
  m.evidence = m.evidence + weight
  m.squares = m.squares + weight * own
  local variance = math.max(m.squares / m.evidence, LEAST_VARIANCE)
  local moved = math.max(variance / m.variance, m.variance / variance)
  if m.evidence >= EVIDENCE and moved > STEP then
    m.variance = variance
    m.evidence, m.squares = 0, 0
    begin_step(m)
  elseif m.evidence >= MOST_EVIDENCE then
    m.evidence, m.squares = m.evidence / 2, m.squares / 2
  end
end

-- Without a horizon, the future grows with the past.
function model.look_ahead(t, m)
  if t.horizon == "" and m.rewards * FUTURE >= m.future then
    m.future = m.future * 2
    begin_step(m)
  end
end
