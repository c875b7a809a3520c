-- include: curve
-- What a ball of a curve is worth: mean, variance and upper bound, as in algorithm/adaptive.py.
--
-- The sorted set `active` of an interval has the arms with a ball there at minus the ball's UCB,
-- `means` those whose ball has had a reward at minus the ball's mean then. Members are arms,
-- big-endian, so that equal scores are ordered by arm.
local score = {}

local ROUGHNESS = 0.15
local TRUSTED, MOVED = 1000, 1e-4

score.PRIOR_MEAN, score.PRIOR_VARIANCE = 0.5, 0.25

local PRIOR_MEAN, PRIOR_VARIANCE = score.PRIOR_MEAN, score.PRIOR_VARIANCE

function score.member(arm)
  return struct.pack(">I4", arm)
end

function score.place(sorted_set, value, arm)
  redis.call("ZADD", sorted_set, string.format("%.17g", -value), score.member(arm))
end

function score.noise(t, m, width)
  return m.variance + t.lipschitz * t.lipschitz * width * width / 12
end

function score.ucb(t, m, b)
  local noise = score.noise(t, m, b.width)
  local answered = (m.rewards + TRUSTED) / (t.trials + TRUSTED)
  local flying = answered * (b.flying_left + b.flying_right)
  local variance = b.variance / (1 + flying * b.variance / noise)
  local reach = math.min(math.sqrt(variance) / t.lipschitz, 1)
  local share = variance / noise * m.future * reach / t.arms
  local bonus = math.sqrt(2 * variance * math.log(1 + share))
  return b.mean + t.confidence * bonus
end

-- Means and variances: what each ball knows itself, and what comes from its left and right.
local function estimate(t, m, balls)
  local roughness = ROUGHNESS * t.lipschitz * t.lipschitz
  local weights, pulls, gaps, left_weights, left_pulls = {}, {}, {}, {}, {}
  local last, weight, pull = 0, 0, 0
  for place = 1, #balls do
    local b = balls[place]
    local width = b.width
    local noise = score.noise(t, m, width)
    local centre = b.index * width + width / 2
    local gap = roughness * (centre - last)
    weight, pull = weight + (weights[place - 1] or 0), pull + (pulls[place - 1] or 0)
    local fade = 1 / (1 + gap * weight)
    weight, pull = weight * fade, pull * fade
    left_weights[place], left_pulls[place], gaps[place] = weight, pull, gap
    weights[place] = (b.count_left + b.count_right) / noise + width / PRIOR_VARIANCE
    pulls[place] = (b.total_left + b.total_right) / noise + PRIOR_MEAN * width / PRIOR_VARIANCE
    last = centre
  end
  weight, pull = 0, 0
  for place = #balls, 1, -1 do
    local b = balls[place]
    weight, pull = weight + weights[place], pull + pulls[place]
    local all_weight = weight + left_weights[place]
    b.mean = (pull + left_pulls[place]) / all_weight
    b.variance = 1 / all_weight
    local fade = 1 / (1 + gaps[place] * weight)
    weight, pull = weight * fade, pull * fade
  end
end

-- The bounds, none above what the slope L allows from any other ball of the curve.
local function bounds(t, m, balls)
  local lipschitz = t.lipschitz
  local ucbs, limits, centres = {}, {}, {}
  for place = 1, #balls do
    local b = balls[place]
    local centre, limit = b.index * b.width + b.width / 2, score.ucb(t, m, b)
    ucbs[place], centres[place] = limit, centre
    if place > 1 then
      limit = math.min(limit, limits[place - 1] + lipschitz * (centre - centres[place - 1]))
    end
    limits[place] = limit
  end
  for place = #balls - 1, 1, -1 do
    local slope = lipschitz * (centres[place + 1] - centres[place])
    limits[place] = math.min(limits[place], limits[place + 1] + slope)
  end
  for place = 1, #balls do
    ucbs[place] = math.min(ucbs[place], limits[place] + lipschitz * balls[place].width / 2)
  end
  return ucbs
end

-- Scores all balls of a curve, ranks those whose bound has moved, and saves it.
function score.curve(t, m, c)
  estimate(t, m, c.balls)
  for place, ucb in ipairs(bounds(t, m, c.balls)) do
    local b = c.balls[place]
    if math.abs(ucb - b.ucb) > MOVED then
      b.ucb = ucb
      score.place(key.active(t.base, b.depth, b.index), ucb, c.arm)
    end
  end
  c.step = m.step
  curve.save(t.base, c)
end
