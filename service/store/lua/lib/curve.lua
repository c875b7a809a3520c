-- include: interval
-- The packed curve of an arm of the preset `adaptive`: the step it was scored at, its rewards, what
-- they may have moved since, what was known of its slopes then, and its balls from left to right,
-- field by field (all ids, all depths, …): the same layout as records.py. A ball is known by its
-- place in the curve.
--
-- A curve is loaded whole, or as the slice that is one ball of it; what changed is written where it
-- stands.
local curve = {}

local HEAD, HEAD_BYTES, BALL_BYTES = "<I4ddddd", 44, 81
-- Name and type of a field, its bytes a ball, and the bytes a ball of all fields before it; first
-- what each reward may change.
local FIELDS = {
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
local STATE, DEPTHS, INDEXES = 9, FIELDS[11], FIELDS[12]

local function balls_in(packed)
  return (#packed - HEAD_BYTES) / BALL_BYTES
end

-- Where a field of the ball at this place begins, counted from 0.
local function offset(field, place, balls)
  return HEAD_BYTES + field[4] * balls + field[3] * (place - 1)
end

local layouts = {}

-- How a field of so many balls is packed, by its type.
local function layouts_of(balls)
  local found = layouts[balls]
  if not found then
    found = {}
    for _, kind in ipairs({ "d", "I4", "B" }) do
      found[kind] = "<" .. string.rep(kind, balls)
    end
    layouts[balls] = found
  end
  return found
end

-- So many balls from this place on.
local function slice(packed, arm, first, balls)
  local c = { arm = arm, first = first, balls = balls, all = balls_in(packed), changed = {} }
  c.packed = packed
  c.step, c.rewards, c.news, c.drift, c.slope_square, c.slope_known = struct.unpack(HEAD, packed)
  local layout = layouts_of(balls)
  for _, field in ipairs(FIELDS) do
    local values = { struct.unpack(layout[field[2]], packed, offset(field, first, c.all) + 1) }
    values[balls + 1] = nil
    c[field[1]] = values
  end
  return c
end

-- The last of so many places whose ball starts at x or before.
local function place_of(x, places, start_of)
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
function curve.new(arm, id, mean, variance, ucb, step)
  local c = { arm = arm, first = 1, balls = 1, all = 1, changed = {}, reshaped = true }
  c.step, c.rewards, c.news, c.drift, c.slope_square, c.slope_known = step, 0, 0, 0, 0, 0
  for _, field in ipairs(FIELDS) do
    c[field[1]] = { 0 }
  end
  c.ids[1], c.means[1], c.variances[1], c.ucbs[1] = id, mean, variance, ucb
  return c
end

-- The whole curve; nil if the arm has none.
function curve.load(base, arm)
  local packed = redis.call("GET", key.curve(base, arm))
  return packed and slice(packed, arm, 1, balls_in(packed))
end

-- Only the ball that holds x, at place 1.
function curve.load_at(base, arm, x)
  local packed = redis.call("GET", key.curve(base, arm))
  local balls = balls_in(packed)
  local depths, indexes = offset(DEPTHS, 1, balls), offset(INDEXES, 1, balls)
  local place = place_of(x, balls, function(place)
    local depth = string.byte(packed, depths + place)
    return struct.unpack("<I4", packed, indexes + 4 * (place - 1) + 1) * 2 ^ -depth
  end)
  return slice(packed, arm, place, 1)
end

-- The whole of a curve that was loaded as a slice, and where in it the slice is; of the slice only
-- the head may have changed.
function curve.whole(c)
  local all = slice(c.packed, c.arm, 1, c.all)
  all.step, all.rewards, all.news, all.drift = c.step, c.rewards, c.news, c.drift
  return all, c.first
end

local function packed_field(c, field)
  return struct.pack(layouts_of(c.balls)[field[2]], unpack(c[field[1]]))
end

local function packed_head(c)
  return struct.pack(HEAD, c.step, c.rewards, c.news, c.drift, c.slope_square, c.slope_known)
end

-- Head and fields up to this one of a whole curve, in one piece; a field that is as it was loaded
-- need not be packed again.
local function packed_up_to(c, last)
  local parts = { packed_head(c) }
  for number = 1, last do
    local field = FIELDS[number]
    if c.reshaped or c.changed[field[1]] then
      parts[number + 1] = packed_field(c, field)
    else
      local first = offset(field, 1, c.balls)
      parts[number + 1] = string.sub(c.packed, first + 1, first + field[3] * c.balls)
    end
  end
  return table.concat(parts)
end

-- After it was scored.
function curve.save(base, c)
  local name = key.curve(base, c.arm)
  if c.reshaped then
    redis.call("SET", name, packed_up_to(c, #FIELDS))
  else
    redis.call("SETRANGE", name, 0, packed_up_to(c, STATE))
  end
end

-- After it was not: the fields named in `changed`, and the head if that is.
function curve.save_changed(base, c)
  local name = key.curve(base, c.arm)
  for _, field in ipairs(FIELDS) do
    if c.changed[field[1]] then
      redis.call("SETRANGE", name, offset(field, c.first, c.all), packed_field(c, field))
    end
  end
  if c.changed.head then
    redis.call("SETRANGE", name, 0, packed_head(c))
  end
end

-- The place of the ball that holds x.
function curve.at(c, x)
  return place_of(x, c.balls, function(place)
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

-- Each half becomes a ball; what it has counted is spread evenly over its own halves.
function curve.split(c, place, first_id)
  for _, field in ipairs(FIELDS) do
    table.insert(c[field[1]], place + 1, 0)
  end
  c.balls, c.all, c.reshaped = c.balls + 1, c.all + 1, true
  c.ids[place], c.ids[place + 1] = first_id, first_id + 1
  local depth, index = c.depths[place] + 1, 2 * c.indexes[place]
  c.depths[place], c.depths[place + 1] = depth, depth
  c.indexes[place], c.indexes[place + 1] = index, index + 1
  for _, name in ipairs({ "counts", "totals", "flying" }) do
    local lefts, rights = c[name .. "_left"], c[name .. "_right"]
    local left, right = lefts[place] / 2, rights[place] / 2
    lefts[place], rights[place] = left, left
    lefts[place + 1], rights[place + 1] = right, right
  end
  c.means[place + 1], c.variances[place + 1] = c.means[place], c.variances[place]
  c.ucbs[place], c.ucbs[place + 1] = math.huge, math.huge
end
