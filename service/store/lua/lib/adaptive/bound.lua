-- What a ball may be worth at the most, as in algorithm/adaptive.py.
local bound = {}

local TRUSTED = 1000
local MOVED, MOVED_SHARE = 1e-4, 0.1
local CAUTION = 0.35
local abs, log, min, sqrt = math.abs, math.log, math.min, math.sqrt

-- A function that tells the UCB of a ball by its mean and variance, its plays in flight, and the
-- noise.
function bound.ucb_by(t, m)
  local answered = (m.rewards + TRUSTED) / (t.trials + TRUSTED)
  local lipschitz, steepness, horizon = m.lipschitz, m.steepness, m.horizon
  local arms, confidence = t.arms, t.confidence
  return function(mean, variance, flying, noise)
    variance = variance / (1 + answered * flying * variance / noise)
    local reach = min(sqrt(variance) / lipschitz, 1) * steepness
    local at_stake = log(1 + variance / noise * horizon * reach / arms)
    return mean + confidence * (sqrt(2 * variance) * at_stake ^ CAUTION)
  end
end

-- Whether a bound is far enough from the one that the ball has.
function bound.moves(c, place, ucb)
  local by = abs(ucb - c.ucbs[place])
  return by > MOVED and by > MOVED_SHARE * (ucb - c.means[place])
end
