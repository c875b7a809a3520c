-- include: interval
-- The curve of an arm of the preset `adaptive`: the step it was scored at, its rewards, what they
-- may have moved since, what was known of its slopes then, and its balls from left to right. A ball
-- is known by its place in the curve. `unranked` has the ids of balls that a split has made.
local curve = { PRIOR_MEAN = 0.5, PRIOR_VARIANCE = 1 / 12 }

-- Name and type of a field, its bytes a ball, and the bytes a ball of all fields before it; first
-- what each reward may change.
curve.FIELDS = {
  { "counts_left", "d", 8, 0 },
  { "counts_right", "d", 8, 8 },
  { "totals_left", "d", 8, 16 },
  { "totals_right", "d", 8, 24 },
  { "flying_left", "d", 8, 32 },
  { "flying_right", "d", 8, 40 },
  { "means", "d", 8, 48 },
  { "variances", "d", 8, 56 },
  { "ucbs", "d", 8, 64 },
  { "ids", "I4", 4, 72 },
  { "depths", "B", 1, 76 },
  { "indexes", "I4", 4, 77 },
}

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
  local c = { arm = arm, first = 1, balls = 1, all = 1, changed = {}, unranked = {} }
  c.reshaped = true
  c.step, c.rewards, c.news, c.drift, c.bend_square, c.bend_known = step, 0, 0, 0, 0, 0
  for _, field in ipairs(curve.FIELDS) do
    c[field[1]] = { 0 }
  end
  c.ids[1], c.means[1], c.variances[1] = id, curve.PRIOR_MEAN, curve.PRIOR_VARIANCE
  c.ucbs[1] = 1
  return c
end

-- The place of the ball that holds x.
function curve.at(c, x)
  return curve.place_of(x, c.balls, function(place)
    return c.indexes[place] * curve.width(c, place)
  end)
end

function curve.width(c, place)
  return 2 ^ -c.depths[place]
end

function curve.centre(c, place)
  local width = curve.width(c, place)
  return c.indexes[place] * width + width / 2
end

-- Whether x lies in the right half of the ball.
function curve.in_right_half(c, place, x)
  return interval.index(x, c.depths[place] + 1) > 2 * c.indexes[place]
end

-- Adds to the half of the ball that holds x.
function curve.add(c, place, x, name, value)
  local half = name .. (curve.in_right_half(c, place, x) and "_right" or "_left")
  c[half][place] = c[half][place] + value
  c.changed[half] = true
end

local function land_in(c, place, left)
  for _, half in ipairs({ "flying_left", "flying_right" }) do
    local landed = math.min(c[half][place] or 0, left)
    if landed > 0 then
      c[half][place] = c[half][place] - landed
      c.changed[half] = true
      left = left - landed
    end
  end
  return left
end

-- Whether a play in flight is all in this ball.
function curve.flies_in(c, place)
  return c.flying_left[place] + c.flying_right[place] >= 1
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

-- Each half becomes a ball; what it has counted is spread evenly over its own halves. All else that
-- is known of the ball, its bound included, is what is known of both.
function curve.split(c, place, first_id)
  for _, field in ipairs(curve.FIELDS) do
    table.insert(c[field[1]], place + 1, 0)
  end
  c.balls, c.all, c.reshaped = c.balls + 1, c.all + 1, true
  c.ids[place], c.ids[place + 1] = first_id, first_id + 1
  c.unranked[first_id], c.unranked[first_id + 1] = true, true
  local depth, index = c.depths[place] + 1, 2 * c.indexes[place]
  c.depths[place], c.depths[place + 1] = depth, depth
  c.indexes[place], c.indexes[place + 1] = index, index + 1
  for _, name in ipairs({ "counts", "totals", "flying" }) do
    local lefts, rights = c[name .. "_left"], c[name .. "_right"]
    local left, right = lefts[place] / 2, rights[place] / 2
    lefts[place], rights[place] = left, left
    lefts[place + 1], rights[place + 1] = right, right
  end
  for _, name in ipairs({ "means", "variances", "ucbs" }) do
    c[name][place + 1] = c[name][place]
  end
end
