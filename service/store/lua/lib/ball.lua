-- include: interval
-- The packed record of a ball; the same layout as records.py.
--
-- An active ball is asleep, and in no ranking, while none of its arms is live. A ball whose arms
-- have all been retired counts as split, without children.
local ball = { ACTIVE = 1, FLAGGED = 2, SPLIT = 3, ASLEEP = 4 }

local HEAD, TAIL = "BBI4I4I4I4ddd", "dddddI4I4I4"

ball.PHASE = { "active", "flagged", "split", "active" }

local NOWHERE = 2 ^ 32 - 1

function ball.unpack(id, packed)
  local b = { id = id }
  local rest
  b.phase, b.depth, b.index, b.arms, b.cursor, b.asked, b.n, b.selects, b.samples, rest =
    struct.unpack("<" .. HEAD, packed)
  b.filled, b.total, b.bias, b.flag_at, b.k, b.first, b.left, b.right =
    struct.unpack("<" .. TAIL, packed, rest)
  return b
end

function ball.load(base, id)
  local packed = redis.call("HGET", key.balls(base), id)
  return packed and ball.unpack(id, packed)
end

function ball.save(base, b)
  local packed = struct.pack(
    "<" .. HEAD .. TAIL,
    b.phase,
    b.depth,
    b.index,
    b.arms,
    b.cursor,
    b.asked,
    b.n,
    b.selects,
    b.samples,
    b.filled,
    b.total,
    b.bias,
    b.flag_at,
    b.k,
    b.first,
    b.left,
    b.right
  )
  redis.call("HSET", key.balls(base), b.id, packed)
end

function ball.arm_at(base, b, position)
  local packed = redis.call("GETRANGE", key.arms(base, b.id), 4 * position, 4 * position + 3)
  return (struct.unpack("<I4", packed))
end

-- The first position, from this one on and then from the beginning, whose arm is wanted; and the
-- arm. nil if there is none.
function ball.first_from(base, b, start, wanted)
  local arm = ball.arm_at(base, b, start)
  if wanted(arm, start) then
    return start, arm
  end
  local arms = b.arms > 1 and redis.call("GET", key.arms(base, b.id))
  for step = 1, b.arms - 1 do
    local position = (start + step) % b.arms
    arm = struct.unpack("<I4", arms, 4 * position + 1)
    if wanted(arm, position) then
      return position, arm
    end
  end
end

-- The position of an arm that the ball has.
function ball.position_of(base, b, arm)
  local low, high = 0, b.arms - 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if ball.arm_at(base, b, middle) < arm then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- The ball that holds (x, arm), and the arm's position there.
function ball.holding(t, arm, x)
  if arm < t.root_arms then
    return ball.descendant(t.base, ball.load(t.base, 0), arm, x)
  end
  local first = struct.unpack("<I4", redis.call("HGET", key.catalogue(t.base), arm))
  return ball.descendant(t.base, ball.load(t.base, first), 0, x)
end

-- The descendant that now holds (x, the arm at this position), and the position there; nil if the
-- arm has been retired.
function ball.descendant(base, b, position, x)
  while b.phase == ball.SPLIT do
    local half = interval.index(x, b.depth + 1) - 2 * b.index
    local from = 8 * (half * b.arms + position)
    local entry = redis.call("GETRANGE", key.forward(base, b.id), from, from + 7)
    local child, place = NOWHERE, 0
    if entry ~= "" then
      child, place = struct.unpack("<I4I4", entry)
    end
    if child == NOWHERE then
      return nil
    end
    b, position = ball.load(base, b.first + child), place
  end
  return b, position
end
