-- include: curve model
-- What a ball may be worth at the most, as in algorithm/adaptive.py.
local bound = {}

local TRUSTED = 1000
local MOVED, MOVED_SHARE = 1e-4, 0.1
local CAUTION, LEAST_AT_STAKE, NEARBY, CROWD = 0.35, 0.3, 0.1, model.CROWD
local abs, log, max, min, sqrt = math.abs, math.log, math.max, math.min, math.sqrt

-- A function that tells the UCB of a ball by its mean and variance, its plays in flight, and the
-- noise.
function bound.ucb_by(t, m)
  local answered = (m.rewards + TRUSTED) / (t.trials + TRUSTED)
  local lipschitz, horizon, confidence = m.lipschitz, m.horizon, t.confidence
  local nearby = NEARBY / max(lipschitz, 1)
  local shared_by = t.arms * sqrt(t.arms / CROWD)
  return function(mean, variance, flying, noise)
    variance = variance / (1 + answered * flying * variance / noise)
    local reach = min(nearby + sqrt(variance) / lipschitz, 1)
    local trials = horizon * reach / shared_by
    local at_stake = max(log(1 + variance / noise * trials), LEAST_AT_STAKE)
    return mean + confidence * (sqrt(2 * variance) * at_stake ^ CAUTION)
  end
end

-- The UCB of the ball at this place.
function bound.ucb_at(t, m, c, place)
  local noise = model.noise(m, c, place, curve.width(c, place))
  local mean, variance = curve.get(c, place, curve.MEAN), curve.get(c, place, curve.VARIANCE)
  return bound.ucb_by(t, m)(mean, variance, curve.sum(c, place, curve.FLYING), noise)
end

-- Whether a bound is far enough from the one that a ball of this mean has.
function bound.moves(mean, before, now)
  local by = abs(now - before)
  return by > MOVED and by > MOVED_SHARE * (now - mean)
end
