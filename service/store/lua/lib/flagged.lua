-- include: tenant interval phase ball claim catalogue
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

-- As many bits as there are arms, all set.
function flagged.all_bits(arms)
  local rest = arms % 8
  local bits = string.rep("\255", math.floor(arms / 8))
  return rest > 0 and bits .. string.char(256 - 2 ^ (8 - rest)) or bits
end

local function ask_live_arms(t, b)
  redis.call("SET", key.asked(t.base, b.id), flagged.all_bits(b.arms))
  b.asked = b.arms
  if t.muted > 0 then
    local arms = redis.call("GET", key.arms(t.base, b.id))
    for position = 0, b.arms - 1 do
      if not catalogue.is_live(t, (struct.unpack("<I4", arms, 4 * position + 1))) then
        ask_no_more(t.base, b, position)
      end
    end
  end
end

-- Makes the ball flagged, last in the queue of its interval. The caller saves the record.
function flagged.enter(t, b, now)
  b.phase, b.cursor, b.filled, b.asked = phase.FLAGGED, 0, 0, 0
  if b.k > 0 then
    ask_live_arms(t, b)
  end
  local order = tenant.count(t.key, "flag_order", 1)
  redis.call("ZADD", key.flagged(t.base, b.depth, b.index), order, b.id)
  flagged.refresh(t.base, b)
  redis.call("ZADD", key.waiting(t.base), now, b.id)
  tenant.count(t.key, "cells_owed", owed(b, t.buckets))
end

-- The ball's place in the queue of its interval.
function flagged.order(base, b)
  return tonumber(redis.call("ZSCORE", key.flagged(base, b.depth, b.index), b.id))
end

-- Forgets the samples of a ball that is no longer flagged.
function flagged.drop_samples(base, b, buckets)
  local leftovers = { key.asked(base, b.id), key.cells(base, b.id) }
  for bucket = 0, buckets - 1 do
    leftovers[#leftovers + 1] = key.samples(base, b.id, bucket)
  end
  redis.call("UNLINK", unpack(leftovers))
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

local function next_asked(base, b, start)
  local asked = key.asked(base, b.id)
  local position = redis.call("BITPOS", asked, 1, start, -1, "BIT")
  if position < 0 then
    position = redis.call("BITPOS", asked, 1, 0, -1, "BIT")
  end
  return position, ball.arm_at(base, b, position)
end

local function first_asked(t, b, start, allowed)
  if b.asked == 0 then
    return nil
  end
  if not allowed.arms then -- those that are asked are live
    local position, arm = next_asked(t.base, b, start)
    if allowed.has(arm) then
      return position, arm
    end
  end
  local asked = redis.call("GET", key.asked(t.base, b.id))
  return ball.first_allowed(t.base, b, start, allowed, function(position)
    local byte = string.byte(asked, math.floor(position / 8) + 1)
    return math.floor(byte / 2 ^ (7 - position % 8)) % 2 == 1
  end)
end

-- None of the arms asked is live: whoever paused or retired them did not come to settle the ball.
local function ask_nobody(t, b)
  redis.call("SET", key.asked(t.base, b.id), string.rep("\0", math.ceil(b.arms / 8)))
  b.asked = 0
  ball.save(t.base, b)
end

-- Position and arm to play of those allowed, and whether it is asked for a sample; if none of them
-- is, as in a full ball that waits for its split, they are played in turn.
function flagged.pick(t, b, allowed)
  -- Under `sequential` sampling it is always the lowest arm that is asked.
  local start = t.sampling == "round_robin" and b.cursor or 0
  local position, arm = first_asked(t, b, start, allowed)
  if position then
    return position, arm, true
  end
  if b.asked > 0 and not allowed.arms and allowed.taken_count == 0 then
    ask_nobody(t, b)
  end
  position, arm = ball.first_allowed(t.base, b, b.cursor, allowed)
  return position, arm, false
end

-- Notes that the arm picked is played. The caller saves the record.
function flagged.issue(t, b, picked)
  if not picked.asked or t.sampling == "round_robin" then
    b.cursor = (picked.position + 1) % b.arms
  end
  if picked.asked then
    local issued = bump(t.base, b, picked.position * (t.buckets + 2))
    if issued >= t.patience * b.k * t.buckets then
      ask_no_more(t.base, b, picked.position)
    end
  end
end

-- Asks an arm for samples just when it is live, short of some, and has not been asked too often.
-- The caller saves the record.
function flagged.settle(t, b, position, is_live)
  if b.k == 0 then
    return
  end
  local first = position * (t.buckets + 2)
  local counts = redis.call(
    "BITFIELD",
    key.cells(t.base, b.id),
    "GET",
    "u32",
    "#" .. first,
    "GET",
    "u32",
    "#" .. first + 1
  )
  local wanted = counts[1] < t.patience * b.k * t.buckets and counts[2] < t.buckets
  if not is_live or not wanted then
    ask_no_more(t.base, b, position)
  elseif redis.call("SETBIT", key.asked(t.base, b.id), position, 1) == 0 then
    b.asked = b.asked + 1
  end
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

-- Whether it is complete: nobody is asked any more, and not merely since all its arms are paused.
local function is_full(t, b)
  if b.asked > 0 then
    return false
  end
  return b.k == 0
    or t.muted == 0
    or ball.first_from(t.base, b, b.cursor, function(arm)
        return catalogue.is_live(t, arm)
      end)
      ~= nil
end

-- Whether the ball is full and nobody is at work on its split.
function flagged.due(t, b, now)
  if b.phase ~= phase.FLAGGED or not is_full(t, b) then
    return false
  end
  local held = claim.read(t.base, b.id)
  return not held or held.deadline <= now
end
