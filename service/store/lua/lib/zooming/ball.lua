-- include: interval phase
-- The packed record of a ball; the same layout as records.py.
local ball = {}

local HEAD, TAIL = "BBI4I4I4I4ddd", "dddddI4I4I4"

local NOWHERE = 2 ^ 32 - 1

-- The child of a split ball that holds (x, the arm at this position), and the position there; nil
-- if the arm has been retired.
function ball.forwarded(base, b, position, x)
  local half = interval.index(x, b.depth + 1) - 2 * b.index
  local from = 8 * (half * b.arms + position)
  local entry = redis.call("GETRANGE", key.forward(base, b.id), from, from + 7)
  if entry == "" then
    return nil
  end
  local child, place = struct.unpack("<I4I4", entry)
  if child == NOWHERE then
    return nil
  end
  return b.first + child, place
end

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

-- The descendant that now holds (x, the arm at this position), and the position there; nil if the
-- arm has been retired.
function ball.descendant(base, b, position, x)
  while b.phase == phase.SPLIT do
    local child
    child, position = ball.forwarded(base, b, position, x)
    if not child then
      return nil
    end
    b = ball.load(base, child)
  end
  return b, position
end
