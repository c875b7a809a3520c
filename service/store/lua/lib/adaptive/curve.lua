-- include: interval
-- The curve of an arm of the preset `adaptive`: the step it was scored at, its rewards, what they
-- may have moved since, what was known of its bends then, and its balls from left to right. A ball
-- is known by its place in the curve. `unranked` has the ids of balls that were made by a split
-- or of two halves, `changes` what `standing` is to commit.
--
-- `values` has the numbers of all balls, `NUMBERS` of each, in the order that the constants tell.
-- What is counted by halves is in two, the left half's and then the right half's.
local curve = { PRIOR_MEAN = 0.5, PRIOR_VARIANCE = 1 / 12 }

curve.NUMBERS = 12
curve.COUNTS, curve.TOTALS, curve.FLYING = 1, 3, 5
curve.MEAN, curve.VARIANCE, curve.UCB = 7, 8, 9
curve.ID, curve.DEPTH, curve.INDEX = 10, 11, 12

local NUMBERS, FLYING, DEPTH, INDEX = curve.NUMBERS, curve.FLYING, curve.DEPTH, curve.INDEX

-- One number of the ball at this place.
function curve.get(c, place, number)
  return c.values[NUMBERS * (place - 1) + number]
end

-- The last of so many places whose ball starts at x or before.
function curve.place_of(x, places, start_of)
  local low, high = 1, places
  while low < high do
    local middle = math.floor((low + high + 1) / 2)
    if start_of(middle) <= x then
      low = middle
    else
      high = middle - 1
    end
  end
  return low
end

-- The curve of an arm that is tried for the first time.
function curve.new(arm, id, step)
  local c = { arm = arm, first = 1, balls = 1, all = 1, unranked = {}, changes = {} }
  c.step, c.rewards, c.news, c.drift, c.bend_square, c.bend_known = step, 0, 0, 0, 0, 0
  c.values = { 0, 0, 0, 0, 0, 0, curve.PRIOR_MEAN, curve.PRIOR_VARIANCE, 1, id, 0, 0 }
  return c
end

-- The place of the ball that holds x.
function curve.at(c, x)
  return curve.place_of(x, c.balls, function(place)
    return curve.get(c, place, INDEX) * curve.width(c, place)
  end)
end

function curve.width(c, place)
  return 2 ^ -curve.get(c, place, DEPTH)
end

function curve.centre(c, place)
  local width = curve.width(c, place)
  return curve.get(c, place, INDEX) * width + width / 2
end

-- Depth and index of the interval of the ball at this place.
function curve.interval(c, place)
  return curve.get(c, place, DEPTH), curve.get(c, place, INDEX)
end

-- Whether x lies in the right half of the ball.
function curve.in_right_half(c, place, x)
  local depth, index = curve.interval(c, place)
  return interval.index(x, depth + 1) > 2 * index
end

-- What the ball has counted, of both halves.
function curve.sum(c, place, number)
  local at = NUMBERS * (place - 1) + number
  return c.values[at] + c.values[at + 1]
end

-- Adds to the half of the ball that holds x.
function curve.add(c, place, x, number, value)
  local at = NUMBERS * (place - 1) + number
  if curve.in_right_half(c, place, x) then
    at = at + 1
  end
  c.values[at] = c.values[at] + value
end

local function land_in(c, place, left)
  if place < 1 or place > c.balls then
    return left
  end
  local values, first = c.values, NUMBERS * (place - 1) + FLYING
  for at = first, first + 1 do
    local landed = math.min(values[at], left)
    values[at], left = values[at] - landed, left - landed
  end
  return left
end

-- Whether a play in flight is all in this ball.
function curve.flies_in(c, place)
  return curve.sum(c, place, FLYING) >= 1
end

-- A play is no longer in flight: in this ball, or as near as splits have spread it.
function curve.land(c, place)
  local left = 1
  for distance = 0, c.balls - 1 do
    left = land_in(c, place - distance, left)
    if distance > 0 then
      left = land_in(c, place + distance, left)
    end
    if left == 0 then
      return
    end
  end
end
