-- include: interval
-- The packed curve of an arm of the preset `adaptive`: the step it was scored at, its rewards, and
-- its balls from left to right; the same layout as records.py.
local curve = {}

local HEAD, PLACE, STATE = "<I4d", "<I4BI4", "<ddddddddd"
local BALL = PLACE .. string.sub(STATE, 2)
local HEAD_BYTES, PLACE_BYTES, BALL_BYTES = 12, 9, 81

local function unpack_ball(packed, from)
  local b = {}
  b.id, b.depth, b.index = struct.unpack(PLACE, packed, from)
  local rest
  b.count_left, b.count_right, b.total_left, b.total_right, b.flying_left, rest =
    struct.unpack("<ddddd", packed, from + PLACE_BYTES)
  b.flying_right, b.mean, b.variance, b.ucb = struct.unpack("<dddd", packed, rest)
  b.width = 2 ^ -b.depth
  return b
end

local function pack_ball(b)
  return struct.pack(
    BALL,
    b.id,
    b.depth,
    b.index,
    b.count_left,
    b.count_right,
    b.total_left,
    b.total_right,
    b.flying_left,
    b.flying_right,
    b.mean,
    b.variance,
    b.ucb
  )
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

function curve.load(base, arm)
  local packed = redis.call("HGET", key.curves(base), arm)
  local c = { arm = arm, balls = {} }
  c.step, c.rewards = struct.unpack(HEAD, packed)
  for place = 1, (#packed - HEAD_BYTES) / BALL_BYTES do
    c.balls[place] = unpack_ball(packed, HEAD_BYTES + 1 + BALL_BYTES * (place - 1))
  end
  return c
end

function curve.save(base, c)
  local parts = { struct.pack(HEAD, c.step, c.rewards) }
  for place, b in ipairs(c.balls) do
    parts[place + 1] = pack_ball(b)
  end
  redis.call("HSET", key.curves(base), c.arm, table.concat(parts))
end

-- The place of the ball that holds x.
function curve.at(c, x)
  return place_of(x, #c.balls, function(place)
    local b = c.balls[place]
    return b.index * b.width
  end)
end

-- Changes the ball that holds x, and no other, without a look at them; returns it.
function curve.touch(base, arm, x, change)
  local packed = redis.call("HGET", key.curves(base), arm)
  local function from_of(place)
    return HEAD_BYTES + 1 + BALL_BYTES * (place - 1)
  end
  local place = place_of(x, (#packed - HEAD_BYTES) / BALL_BYTES, function(place)
    local _, depth, index = struct.unpack(PLACE, packed, from_of(place))
    return index * 2 ^ -depth
  end)
  local from = from_of(place)
  local b = unpack_ball(packed, from)
  change(b)
  local before, after = string.sub(packed, 1, from - 1), string.sub(packed, from + BALL_BYTES)
  redis.call("HSET", key.curves(base), arm, before .. pack_ball(b) .. after)
  return b
end

local function land_in(b, left)
  if not b or left == 0 then
    return left
  end
  local landed = math.min(b.flying_left, left)
  b.flying_left, left = b.flying_left - landed, left - landed
  landed = math.min(b.flying_right, left)
  b.flying_right = b.flying_right - landed
  return left - landed
end

-- A play is no longer in flight: at x, or as near as splits have spread it.
function curve.land(c, x)
  local place, left = curve.at(c, x), 1
  for distance = 0, #c.balls - 1 do
    left = land_in(c.balls[place - distance], left)
    if distance > 0 then
      left = land_in(c.balls[place + distance], left)
    end
    if left == 0 then
      return
    end
  end
end

-- Whether x lies in the right half of the ball.
function curve.in_right_half(b, x)
  return interval.index(x, b.depth + 1) > 2 * b.index
end
