-- include: curve model standing
-- How a curve that has all its balls makes room for one more, as in algorithm/partition.py.
local merging = {}

local GIVEN_BACK = 4.0
local NUMBERS, DEPTH, INDEX = curve.NUMBERS, curve.DEPTH, curve.INDEX
local MEAN, VARIANCE, UCB = curve.MEAN, curve.VARIANCE, curve.UCB

-- Whether the ball at this place and the next are halves of one that would be in balance.
local function are_halves(c, place)
  local values, at = c.values, NUMBERS * (place - 1)
  local depth = values[at + DEPTH]
  return values[at + INDEX] % 2 == 0
    and values[at + NUMBERS + DEPTH] == depth
    and (values[at - NUMBERS + DEPTH] or 0) <= depth
    and (values[at + 2 * NUMBERS + DEPTH] or 0) <= depth
end

-- The halves become one ball, at the place of the left one.
local function join(c, place, id)
  local values, left = c.values, NUMBERS * (place - 1)
  local right = left + NUMBERS
  for _, number in ipairs({ curve.COUNTS, curve.TOTALS, curve.FLYING }) do
    values[left + number] = values[left + number] + values[left + number + 1]
    values[left + number + 1] = values[right + number] + values[right + number + 1]
  end
  values[left + MEAN] = (values[left + MEAN] + values[right + MEAN]) / 2
  values[left + VARIANCE] = (values[left + VARIANCE] + values[right + VARIANCE]) / 2
  values[left + UCB] = math.max(values[left + UCB], values[right + UCB])
  values[left + curve.ID] = id
  values[left + DEPTH], values[left + INDEX] = values[left + DEPTH] - 1, values[left + INDEX] / 2
  for at = right + 1, NUMBERS * c.balls do
    values[at] = values[at + NUMBERS]
  end
  c.balls, c.all = c.balls - 1, c.all - 1
  c.unranked[id] = true
end

-- Makes one ball of the two halves whose rewards would tell the least of it, if those of the ball
-- at this place, which tell so much, tell so many times as much. `made` keeps count. Returns
-- whether there is room now.
function merging.make_room(m, c, place, told, made)
  local least, found = math.huge, nil
  for left = 1, c.balls - 1 do
    if left ~= place and left + 1 ~= place and are_halves(c, left) then
      local count = curve.sum(c, left, curve.COUNTS) + curve.sum(c, left + 1, curve.COUNTS)
      local of_both = model.told(m, count, 2 * curve.width(c, left))
      if of_both < least then
        least, found = of_both, left
      end
    end
  end
  if not found or least * GIVEN_BACK >= told then
    return false
  end
  local depth = curve.get(c, found, DEPTH)
  standing.leave(c, found)
  standing.leave(c, found + 1)
  join(c, found, made.first + made.ids)
  made.ids = made.ids + 1
  made.balls[depth] = (made.balls[depth] or 0) - 2
  made.balls[depth - 1] = (made.balls[depth - 1] or 0) + 1
  return true
end
