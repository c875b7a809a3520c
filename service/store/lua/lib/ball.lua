-- include: interval
-- The packed record of a ball; the same layout as records.py.
local ball = { ACTIVE = 1, FLAGGED = 2, SPLIT = 3 }

local HEAD, TAIL = "BBI4I4I4I4ddd", "dddddI4I4I4"

ball.PHASE = { "active", "flagged", "split" }

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

-- The arm at the cursor; the cursor moves on by one, cyclic.
function ball.next_in_turn(b)
  local position = b.cursor
  b.cursor = (position + 1) % b.arms
  return position
end

function ball.arm_at(base, b, position)
  local packed = redis.call("GETRANGE", key.arms(base, b.id), 4 * position, 4 * position + 3)
  return (struct.unpack("<I4", packed))
end

-- The descendant that now holds (x, the arm at this position), and the position there.
-- nil when the way there is forgotten, which it is only after the reward window.
function ball.descendant(base, b, position, x)
  while b.phase == ball.SPLIT do
    local half = interval.index(x, b.depth + 1) - 2 * b.index
    local from = 8 * (half * b.arms + position)
    local entry = redis.call("GETRANGE", key.forward(base, b.id), from, from + 7)
    if entry == "" then
      return nil
    end
    local child, place = struct.unpack("<I4I4", entry)
    b, position = ball.load(base, b.first + child), place
  end
  return b, position
end
