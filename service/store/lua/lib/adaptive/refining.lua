-- include: tenant curve model standing census merging
-- How a curve is split, as in algorithm/partition.py.
local refining = {}

local MOST_BALLS, FIRST_DEPTH = 64, 6
local NUMBERS, DEPTH, INDEX = curve.NUMBERS, curve.DEPTH, curve.INDEX

-- Each half becomes a ball; what it has counted is spread evenly over its own halves. All else that
-- is known of the ball, its bound included, is what is known of both.
local function halve(c, place, first_id)
  local values, left = c.values, NUMBERS * (place - 1)
  local right = left + NUMBERS
  for at = NUMBERS * c.balls, left + 1, -1 do
    values[at + NUMBERS] = values[at]
  end
  c.balls, c.all = c.balls + 1, c.all + 1
  for _, number in ipairs({ curve.COUNTS, curve.TOTALS, curve.FLYING }) do
    local in_left, in_right = values[left + number] / 2, values[left + number + 1] / 2
    values[left + number], values[left + number + 1] = in_left, in_left
    values[right + number], values[right + number + 1] = in_right, in_right
  end
  values[left + curve.ID], values[right + curve.ID] = first_id, first_id + 1
  c.unranked[first_id], c.unranked[first_id + 1] = true, true
  local depth, index = values[left + DEPTH] + 1, 2 * values[left + INDEX]
  values[left + DEPTH], values[right + DEPTH] = depth, depth
  values[left + INDEX], values[right + INDEX] = index, index + 1
end

-- `made` keeps count.
local function split(c, place, made)
  local depth = curve.get(c, place, DEPTH)
  standing.leave(c, place)
  halve(c, place, made.first + made.ids)
  made.ids, made.splits = made.ids + 2, made.splits + 1
  made.balls[depth] = (made.balls[depth] or 0) - 1
  made.balls[depth + 1] = (made.balls[depth + 1] or 0) + 2
end

-- Brings the counters up to date with what a curve has gained.
local function count_made(t, made)
  census.count(t, made.balls, { splits = made.splits, next_ball = made.ids })
  local deepest = t.depth
  for depth in pairs(made.balls) do
    deepest = math.max(deepest, depth)
  end
  if deepest > t.depth then
    t.depth = deepest
    redis.call("HSET", t.key, "depth", deepest)
  end
end

-- Splits until neighbours differ by one level at the most.
local function balance(c, made)
  local place, values = 1, c.values
  while place <= c.balls and c.balls < MOST_BALLS do
    local at = NUMBERS * (place - 1) + DEPTH
    local deeper = values[at] + 1
    if (values[at - NUMBERS] or 0) > deeper or (values[at + NUMBERS] or 0) > deeper then
      split(c, place, made)
      place = math.max(place - 1, 1)
    else
      place = place + 1
    end
  end
end

-- Whether one more makes them more than the next power of two, or as many.
local function doubles(rewards)
  local _, now = math.frexp(rewards + 1)
  local _, before = math.frexp(rewards)
  return now > before
end

-- How much the ball's rewards tell, and one more, if it is too wide for them; else nil.
local function told_if_wide(t, m, c, place)
  local _, doublings = math.frexp(c.rewards)
  local deepest = math.min(FIRST_DEPTH + doublings - 1, t.max_depth)
  local told = model.told(m, curve.sum(c, place, curve.COUNTS) + 1, curve.width(c, place))
  if curve.get(c, place, DEPTH) < deepest and told > m.variance then
    return told
  end
end

-- Whether the ball may be split: too wide, and there is room, or it is asked for: its rewards have
-- doubled.
function refining.due(t, m, c, place)
  local has_room = c.all < MOST_BALLS or doubles(curve.sum(c, place, curve.COUNTS))
  return has_room and told_if_wide(t, m, c, place) ~= nil
end

-- Splits at x until the ball is narrow enough for its rewards, and then around it. Returns the
-- place of the ball that holds x then.
function refining.refine(t, m, c, place, x)
  if not refining.due(t, m, c, place) then
    return place
  end
  local made = { first = tenant.count(t.key, "next_ball", 0), ids = 0, splits = 0, balls = {} }
  local told, has_merged = told_if_wide(t, m, c, place), false
  while told do
    if c.balls == MOST_BALLS then
      local asks = has_merged or doubles(curve.sum(c, place, curve.COUNTS))
      if not asks or not merging.make_room(m, c, place, told, made) then
        break
      end
      has_merged = true
      place = curve.at(c, x)
    end
    local right = curve.in_right_half(c, place, x)
    split(c, place, made)
    place = place + (right and 1 or 0)
    told = told_if_wide(t, m, c, place)
  end
  if made.splits == 0 then
    return place
  end
  balance(c, made)
  count_made(t, made)
  return curve.at(c, x)
end
