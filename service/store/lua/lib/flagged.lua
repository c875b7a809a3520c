-- include: tenant interval ball claim
-- The flagged phase of a ball: whom to ask for a sample, what has come in, when it is full.
--
-- `cells` holds, for each arm of the ball, buckets + 2 numbers of 32 bits: how often the arm was
-- issued, how many of its cells are full, and the count of each cell. `asked` has a bit for each
-- arm that has a short cell and has not been set aside.
local flagged = {}

local function bump(base, b, place)
  return redis.call("BITFIELD", key.cells(base, b.id), "INCRBY", "u32", "#" .. place, 1)[1]
end

local function ask_no_more(base, b, position)
  if redis.call("SETBIT", key.asked(base, b.id), position, 0) == 1 then
    b.asked = b.asked - 1
  end
end

-- How many samples fill all cells of the ball; so many at the most that sums of it stay exact.
local function owed(b, buckets)
  return math.min(b.k * buckets * b.arms, 2 ^ 40)
end

-- Makes the ball flagged, last in the queue of its interval. The caller saves the record.
function flagged.enter(tenant_key, base, b, buckets, now)
  b.phase, b.cursor, b.filled = ball.FLAGGED, 0, 0
  b.asked = b.k > 0 and b.arms or 0
  if b.asked > 0 then
    local rest = b.arms % 8
    local bits = string.rep("\255", math.floor(b.arms / 8))
    if rest > 0 then
      bits = bits .. string.char(256 - 2 ^ (8 - rest))
    end
    redis.call("SET", key.asked(base, b.id), bits)
  end
  local order = tenant.count(tenant_key, "flag_order", 1)
  redis.call("ZADD", key.flagged(base, b.depth, b.index), order, b.id)
  flagged.refresh(base, b)
  redis.call("ZADD", key.waiting(base), now, b.id)
  tenant.count(tenant_key, "cells_owed", owed(b, buckets))
end

-- Takes the ball out of the queue of its interval.
function flagged.leave(tenant_key, base, b, buckets)
  redis.call("ZREM", key.flagged(base, b.depth, b.index), b.id)
  flagged.refresh(base, b)
  redis.call("ZREM", key.waiting(base), b.id)
  -- Not "-0", which the server does not take for an integer.
  tenant.count(tenant_key, "cells_owed", 0 - owed(b, buckets))
  tenant.count(tenant_key, "cells_filled", 0 - b.filled)
end

-- Brings `path` up to date with the head of the queue.
function flagged.refresh(base, b)
  local head = redis.call("ZRANGE", key.flagged(base, b.depth, b.index), 0, 0)[1]
  local field = interval.field("f", b.depth, b.index)
  if head then
    redis.call("HSET", key.path(base), field, head)
  else
    redis.call("HDEL", key.path(base), field)
  end
end

-- The position of the arm to play; a full ball that waits for its split plays all in turn.
function flagged.pick(base, b, t)
  if b.asked == 0 then
    return ball.next_in_turn(b)
  end
  local asked = key.asked(base, b.id)
  local position = redis.call("BITPOS", asked, 1, b.cursor, -1, "BIT")
  if position < 0 then
    position = redis.call("BITPOS", asked, 1, 0, -1, "BIT")
  end
  if t.sampling == "round_robin" then -- else it stays at 0: the lowest arm is asked
    b.cursor = (position + 1) % b.arms
  end
  local issued = bump(base, b, position * (t.buckets + 2))
  if issued >= t.patience * b.k * t.buckets then
    ask_no_more(base, b, position)
  end
  return position
end

-- Stores a sample and counts its cell; a ball that needs no samples only counts the reward.
function flagged.count(base, b, t, position, x, reward)
  b.samples = b.samples + 1
  if b.k == 0 then
    return
  end
  local width = 2 ^ -b.depth
  local scaled = (x - b.index * width) / width * t.buckets
  local bucket = math.min(math.floor(scaled), t.buckets - 1)
  redis.call("APPEND", key.samples(base, b.id, bucket), struct.pack("<I4dd", position, x, reward))
  local cells_of_arm = position * (t.buckets + 2)
  local count = bump(base, b, cells_of_arm + 2 + bucket)
  if count <= b.k then
    b.filled = b.filled + 1
    tenant.count(t.key, "cells_filled", 1)
  end
  if count == b.k and bump(base, b, cells_of_arm + 1) == t.buckets then
    ask_no_more(base, b, position)
  end
end

-- Whether the ball is full and nobody is at work on its split.
function flagged.due(base, b, now)
  if b.phase ~= ball.FLAGGED or b.asked > 0 then
    return false
  end
  local held = claim.read(base, b.id)
  return not held or held.deadline <= now
end
