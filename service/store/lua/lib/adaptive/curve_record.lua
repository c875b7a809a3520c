-- include: curve
-- The packed curve of an arm: its head, then its balls; the same layout as records.py.
--
-- A curve is loaded whole, or as the slice that is one ball of it, and is written as it was loaded.
local curve_record = {}

local HEAD, HEAD_BYTES = "<I4ddddd", 44
local BALL, BALL_BYTES, INTERVAL_BYTES = "dddddddddI4BI4", 81, 5

local function balls_in(packed)
  return (#packed - HEAD_BYTES) / BALL_BYTES
end

-- Where the ball at this place begins, counted from 0.
local function offset(place)
  return HEAD_BYTES + BALL_BYTES * (place - 1)
end

-- So many balls from this place on.
local function slice(packed, arm, first, balls)
  local c = { arm = arm, first = first, balls = balls, all = balls_in(packed), packed = packed }
  c.unranked, c.changes = {}, {}
  c.step, c.rewards, c.news, c.drift, c.bend_square, c.bend_known = struct.unpack(HEAD, packed)
  c.values = { struct.unpack("<" .. string.rep(BALL, balls), packed, offset(first) + 1) }
  c.values[curve.NUMBERS * balls + 1] = nil
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
  local place = curve.place_of(x, balls_in(packed), function(place)
    local depth, index = struct.unpack("<BI4", packed, offset(place + 1) - INTERVAL_BYTES + 1)
    return index * 2 ^ -depth
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

local function packed_head(c)
  return struct.pack(HEAD, c.step, c.rewards, c.news, c.drift, c.bend_square, c.bend_known)
end

local function packed_balls(c)
  return struct.pack("<" .. string.rep(BALL, c.balls), unpack(c.values))
end

-- The ball of a slice, and nothing else.
function curve_record.save_ball(base, c)
  redis.call("SETRANGE", key.curve(base, c.arm), offset(c.first), packed_balls(c))
end

-- All that was loaded.
function curve_record.save(base, c)
  if c.balls == c.all then
    redis.call("SET", key.curve(base, c.arm), packed_head(c) .. packed_balls(c))
  else
    redis.call("SETRANGE", key.curve(base, c.arm), 0, packed_head(c))
    curve_record.save_ball(base, c)
  end
end
