-- include: curve
-- The packed curve of an arm: its head, then its balls field by field (all ids, all depths, …); the
-- same layout as records.py.
--
-- A curve is loaded whole, or as the slice that is one ball of it; what changed is written where it
-- stands.
local curve_record = {}

local HEAD, HEAD_BYTES, BALL_BYTES = "<I4ddddd", 44, 81
local FIELDS = curve.FIELDS
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
  local c = { arm = arm, first = first, balls = balls, all = balls_in(packed), packed = packed }
  c.changed, c.unranked = {}, {}
  c.step, c.rewards, c.news, c.drift, c.bend_square, c.bend_known = struct.unpack(HEAD, packed)
  local layout = layouts_of(balls)
  for _, field in ipairs(FIELDS) do
    local values = { struct.unpack(layout[field[2]], packed, offset(field, first, c.all) + 1) }
    values[balls + 1] = nil
    c[field[1]] = values
  end
  return c
end

-- The whole curve; nil if the arm has none.
function curve_record.load(base, arm)
  local packed = redis.call("GET", key.curve(base, arm))
  return packed and slice(packed, arm, 1, balls_in(packed))
end

-- Only the ball that holds x, at place 1.
function curve_record.load_at(base, arm, x)
  local packed = redis.call("GET", key.curve(base, arm))
  local balls = balls_in(packed)
  local depths, indexes = offset(DEPTHS, 1, balls), offset(INDEXES, 1, balls)
  local place = curve.place_of(x, balls, function(place)
    local depth = string.byte(packed, depths + place)
    return struct.unpack("<I4", packed, indexes + 4 * (place - 1) + 1) * 2 ^ -depth
  end)
  return slice(packed, arm, place, 1)
end

-- The whole of a curve that was loaded as a slice, and where in it the slice is; of the slice only
-- the head may have changed.
function curve_record.whole(c)
  local all = slice(c.packed, c.arm, 1, c.all)
  all.step, all.rewards, all.news, all.drift = c.step, c.rewards, c.news, c.drift
  return all, c.first
end

local function packed_field(c, field)
  return struct.pack(layouts_of(c.balls)[field[2]], unpack(c[field[1]]))
end

local function packed_head(c)
  return struct.pack(HEAD, c.step, c.rewards, c.news, c.drift, c.bend_square, c.bend_known)
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
function curve_record.save(base, c)
  local name = key.curve(base, c.arm)
  if c.reshaped then
    redis.call("SET", name, packed_up_to(c, #FIELDS))
  else
    redis.call("SETRANGE", name, 0, packed_up_to(c, STATE))
  end
end

-- After it was not: the fields named in `changed`, and the head if that is; all after a split.
function curve_record.save_changed(base, c)
  if c.reshaped then
    return curve_record.save(base, c)
  end
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
