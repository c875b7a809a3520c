-- include: ball
-- The arms of a ball, in ascending order: which of them may be played, and at which position.
local arm_set = {}

-- All its arms, packed. They never change, and are asked for again in a ranking.
local function packed_arms(base, b)
  b.packed = b.packed or redis.call("GET", key.arms(base, b.id))
  return b.packed
end

-- The first position, from this one on and then from the beginning, whose arm is wanted; and the
-- arm. nil if there is none.
function arm_set.first_from(base, b, start, wanted)
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
function arm_set.first_allowed(base, b, start, allowed, wanted)
  local function is_wanted(arm, position)
    return not allowed.taken[arm] and (not wanted or wanted(position))
  end
  if b.named then
    return first_named(b, start, is_wanted)
  elseif not allowed.arms or b.arms == 1 then
    return arm_set.first_from(base, b, start, function(arm, position)
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
function arm_set.position_of(base, b, arm)
  local function arm_of(position)
    return ball.arm_at(base, b, position)
  end
  return seek(arm_of, arm, 0, b.arms - 2)
end
