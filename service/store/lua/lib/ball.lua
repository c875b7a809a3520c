-- include: interval phase
-- The packed record of a ball; the same layout as records.py.
local ball = {}

local HEAD, TAIL = "BBI4I4I4I4ddd", "dddddI4I4I4"

local NOWHERE = 2 ^ 32 - 1

-- The child of a split ball that holds (x, the arm at this position), and the position there; nil
-- if the arm has been retired.
local function forwarded(base, b, position, x)
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

-- All its arms, packed. They never change, and are asked for again in a ranking.
local function packed_arms(base, b)
  b.packed = b.packed or redis.call("GET", key.arms(base, b.id))
  return b.packed
end

-- The first position, from this one on and then from the beginning, whose arm is wanted; and the
-- arm. nil if there is none.
function ball.first_from(base, b, start, wanted)
  local arm = ball.arm_at(base, b, start)
  if wanted(arm, start) then
    return start, arm
  end
  local arms = b.arms > 1 and packed_arms(base, b)
  for step = 1, b.arms - 1 do
    local position = (start + step) % b.arms
    arm = struct.unpack("<I4", arms, 4 * position + 1)
    if wanted(arm, position) then
      return position, arm
    end
  end
end

-- The first of the places from this one up to the last whose arm is not below this one.
local function seek(arm_of, arm, place, last)
  local low, high = place, last + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if arm_of(middle) < arm then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- The first position from this one on whose arm is in the list and wanted; and the arm. Both are in
-- ascending order, and each leaps to where the other is.
local function first_listed(b, packed, start, listed, wanted)
  local function arm_here(position)
    return (struct.unpack("<I4", packed, 4 * position + 1))
  end
  local function arm_there(place)
    return listed[place]
  end
  local position, place, last = start, 1, #listed
  while position < b.arms do
    local arm = arm_here(position)
    place = seek(arm_there, arm, place, last)
    if place > last then
      return nil
    elseif listed[place] ~= arm then
      position = seek(arm_here, listed[place], position, b.arms - 1)
    elseif wanted(arm, position) then
      return position, arm
    else
      position = position + 1
    end
  end
end

-- The same of those whose positions are known.
local function first_named(b, start, wanted)
  local first, least = nil, b.arms
  for position, arm in pairs(b.named) do
    local steps = (position - start) % b.arms
    if steps < least and wanted(arm, position) then
      first, least = position, steps
    end
  end
  return first, b.named[first]
end

-- As `first_from`, of the arms that are allowed.
function ball.first_allowed(base, b, start, allowed, wanted)
  local function is_wanted(arm, position)
    return not allowed.taken[arm] and (not wanted or wanted(position))
  end
  if b.named then
    return first_named(b, start, is_wanted)
  elseif not allowed.arms or b.arms == 1 then
    return ball.first_from(base, b, start, function(arm, position)
      return allowed.has(arm) and (not wanted or wanted(position))
    end)
  end
  local packed = packed_arms(base, b)
  local position, arm = first_listed(b, packed, start, allowed.arms, is_wanted)
  if position then
    return position, arm
  end
  return first_listed(b, packed, 0, allowed.arms, is_wanted)
end

-- The position of an arm that the ball has.
function ball.position_of(base, b, arm)
  local function arm_of(position)
    return ball.arm_at(base, b, position)
  end
  return seek(arm_of, arm, 0, b.arms - 2)
end

local function hold(level, id, arm, position)
  level[id] = level[id] or {}
  table.insert(level[id], { arm = arm, position = position })
end

-- The balls that the arms began in, each with those arms and their positions there.
function ball.beginnings(t, arms)
  local level = {}
  for _, arm in ipairs(arms) do
    if arm < t.root_arms then
      hold(level, 0, arm, arm)
    else
      local first = redis.call("HGET", key.catalogue(t.base), arm)
      hold(level, struct.unpack("<I4", first), arm, 0)
    end
  end
  return level
end

-- Of the balls of a level, those that are split give way to their children at x, which are the next
-- level; the others are found, each with its arms by their positions in `named`.
function ball.next_level(t, level, x, found)
  local ids, children = {}, {}
  for id in pairs(level) do
    ids[#ids + 1] = id
  end
  table.sort(ids)
  for place, packed in ipairs(redis.call("HMGET", key.balls(t.base), unpack(ids))) do
    local b = ball.unpack(ids[place], packed)
    b.named = {}
    for _, one in ipairs(level[b.id]) do
      b.named[one.position] = one.arm
      if b.phase == phase.SPLIT then
        local child, position = forwarded(t.base, b, one.position, x)
        if child then
          hold(children, child, one.arm, position)
        end
      end
    end
    if b.phase ~= phase.SPLIT then
      found[#found + 1] = b
    end
  end
  return children
end

-- The descendant that now holds (x, the arm at this position), and the position there; nil if the
-- arm has been retired.
function ball.descendant(base, b, position, x)
  while b.phase == phase.SPLIT do
    local child
    child, position = forwarded(base, b, position, x)
    if not child then
      return nil
    end
    b = ball.load(base, child)
  end
  return b, position
end
