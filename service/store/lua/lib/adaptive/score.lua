-- include: catalogue curve curve_record posterior model inference bound standing
-- How a curve is scored when there is news of it, as in algorithm/adaptive.py.
local score = {}

local NEWS, DRIFT = 0.4, 0.01
local NUMBERS, FLYING, MEAN = curve.NUMBERS, curve.FLYING, curve.MEAN
local VARIANCE, UCB = curve.VARIANCE, curve.UCB
local abs, max, min, sqrt = math.abs, math.max, math.min, math.sqrt

-- The balls' widths, and their centres, for all at once.
local function measures(c)
  local widths, centres = {}, {}
  local values, at = c.values, 0
  for place = 1, c.balls do
    local width = 2 ^ -values[at + curve.DEPTH]
    widths[place], centres[place] = width, values[at + curve.INDEX] * width + width / 2
    at = at + NUMBERS
  end
  return widths, centres
end

-- The noise of a reward in each ball; if it does not depend on the mean, it does on the width.
local function noises_in(m, c, widths)
  local noises, by_width = {}, {}
  for place = 1, c.balls do
    local width = widths[place]
    local noise = by_width[width] or model.noise(m, c, place, width)
    noises[place], by_width[width] = noise, not m.binary and noise or nil
  end
  return noises
end

-- The bounds, none above what the slope L allows from any other ball of the curve.
local function bounds(t, m, c, widths, centres, noises)
  local ucb_of, lipschitz, balls, values = bound.ucb_by(t, m), m.lipschitz, c.balls, c.values
  local ucbs, limits = {}, {}
  local limit, last, at = math.huge, 0, 0
  for place = 1, balls do
    local flying, centre = values[at + FLYING] + values[at + FLYING + 1], centres[place]
    local ucb = ucb_of(values[at + MEAN], values[at + VARIANCE], flying, noises[place])
    limit = min(ucb, limit + lipschitz * (centre - last))
    ucbs[place], limits[place], last, at = ucb, limit, centre, at + NUMBERS
  end
  for place = balls, 1, -1 do
    limit = min(limits[place], limit + lipschitz * (last - centres[place]))
    ucbs[place] = min(ucbs[place], limit + lipschitz * widths[place] / 2)
    last = centres[place]
  end
  return ucbs
end

-- Gives balls these bounds, by their places, where that makes a difference, and ranks the balls
-- whose bounds have moved, and new ones.
local function take_bounds(t, c, ucbs)
  local is_live, values, at = catalogue.is_live(t, c.arm), c.values, 0
  for place = 1, c.balls do
    local ucb = ucbs[place]
    local moves = ucb and bound.moves(values[at + MEAN], values[at + UCB], ucb)
    if moves then
      values[at + UCB] = ucb
    end
    if is_live and (moves or c.unranked[values[at + curve.ID]]) then
      standing.rank(c, place)
    end
    at = at + NUMBERS
  end
end

-- Notes what a reward may do to the bounds of a curve.
function score.note(m, c, place, reward)
  local mean, variance = curve.get(c, place, MEAN), curve.get(c, place, VARIANCE)
  local noise = model.noise(m, c, place, curve.width(c, place))
  local share = variance / (variance + noise)
  c.news = c.news + variance / noise
  c.drift = c.drift + share * (abs(reward - mean) + sqrt(variance))
end

-- Whether what was noted is enough.
function score.due(m, c)
  local enough = NEWS * sqrt(min(model.slopes(m), 1))
  return c.rewards == 1 or (c.news >= enough and c.drift > DRIFT)
end

-- What a reward tells of its own ball; the others are told when the curve is scored.
function score.ball(t, m, c, place, reward)
  local before = bound.ucb_at(t, m, c, place)
  local values, at = c.values, NUMBERS * (place - 1)
  local mean, variance = values[at + MEAN], values[at + VARIANCE]
  local share = variance / (variance + model.noise(m, c, place, curve.width(c, place)))
  values[at + MEAN] = mean + share * (reward - mean)
  values[at + VARIANCE] = variance * (1 - share)
  local now = bound.ucb_at(t, m, c, place)
  take_bounds(t, c, { [place] = min(now, values[at + UCB] + max(now - before, 0)) })
end

-- Scores all balls of a curve.
function score.curve(t, m, c)
  local widths, centres = measures(c)
  local noises = noises_in(m, c, widths)
  local square, known = posterior.estimate(m, c, widths, centres, noises)
  if m.binary then -- the means have moved, and their noise with them
    noises = noises_in(m, c, widths)
  end
  take_bounds(t, c, bounds(t, m, c, widths, centres, noises))
  c.step, c.news, c.drift = m.step, 0, 0
  inference.learn_steepness(t, m, c, square, known)
end

-- Brings the store up to date with a curve of which something is known anew.
function score.save(t, c)
  standing.commit(t, c)
  curve_record.save(t.base, c)
end
