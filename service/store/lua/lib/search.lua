-- include: interval ranking phase ball flagged catalogue
-- Which ball of the paper's presets is played where not every arm may be: the best one that holds
-- an arm that may.
--
-- Nothing is played before the last arm of a ranking is chosen, so the balls are brought into their
-- order once, as far as it is needed, and kept with what is allowed: those that are flagged, the
-- widest first, then the others by their score.
local search = {}

-- So few arms are looked up one by one; of more, some ball that ranks high is likely to hold one.
local FEW = 64
-- Balls without a live arm that a select puts to sleep on its way; the rest are passed by.
local MOST_TO_SLEEP = 64
local PORTION = 16
-- So many balls are passed by, or so many for each arm that is wanted and as many as there are arms
-- to look up, before they are looked up after all.
local MOST_PASSED, MOST_FOR_EACH = 100, 16

local function holds(t, b, allowed)
  return ball.first_allowed(t.base, b, b.cursor, allowed) ~= nil
end

local function comes_before(a, b)
  if a.phase ~= b.phase then
    return a.phase == phase.FLAGGED
  elseif a.phase ~= phase.FLAGGED then
    return a.score < b.score or (a.score == b.score and a.id < b.id)
  end
  return a.depth < b.depth or (a.depth == b.depth and a.order < b.order)
end

-- Puts a ball in its place, among so many at the most.
local function insert(balls, b, most)
  local low, high = 1, #balls + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if comes_before(balls[middle], b) then
      low = middle + 1
    else
      high = middle
    end
  end
  if low <= most then
    table.insert(balls, low, b)
    balls[most + 1] = nil
  end
end

-- The best balls at x that hold the arms, each with those arms: one more than are wanted.
local function look_up(t, x, allowed)
  local found, best = {}, {}
  local level = ball.beginnings(t, allowed.arms)
  while next(level) do
    level = ball.next_level(t, level, x, found)
  end
  for _, b in ipairs(found) do
    if b.phase == phase.ASLEEP then -- one of its arms has just been resumed
      ranking.wake(t.base, b, t.confidence)
    elseif b.phase == phase.FLAGGED then
      b.order = flagged.order(t.base, b)
    end
    b.score = ranking.score(b, t.confidence)
    insert(best, b, allowed.wanted + 1)
  end
  return best
end

-- The flagged balls at x, the widest first, then as they stand in their queues: each call gives the
-- next.
local function flagged_in_order(t, x)
  local depth, queue, place = -1, {}, 1
  return function()
    while place > #queue and depth < t.depth do
      depth, place = depth + 1, 1
      queue = redis.call("ZRANGE", key.flagged(t.base, depth, interval.index(x, depth)), 0, -1)
    end
    place = place + 1
    local id = queue[place - 1]
    return id and ball.load(t.base, tonumber(id))
  end
end

-- The balls of an interval from the best one on: each call gives score and id of the next.
local function ranked(sorted_set)
  local portion, place, from = {}, 1, 0
  local id, last, score = 1, 0, nil
  return function()
    if id > last then
      if place > #portion then
        portion = redis.call("ZRANGE", sorted_set, from, from + PORTION - 1, "WITHSCORES")
        place, from = 1, from + PORTION
      end
      local member = portion[place]
      if not member then
        return nil
      end
      score = tonumber(portion[place + 1])
      place = place + 2
      id = struct.unpack(">I4", member)
      last = #member == 8 and struct.unpack(">I4", member, 5) or id
    end
    id = id + 1
    return score, id - 1
  end
end

-- The active balls at x from the best one on: each call gives the next.
local function active_in_order(t, x)
  local heads = {}
  for depth = 0, t.depth do
    local next_of = ranked(key.active(t.base, depth, interval.index(x, depth)))
    local score, id = next_of()
    if score then
      heads[#heads + 1] = { next_of = next_of, score = score, id = id }
    end
  end
  return function()
    local best = #heads > 0 and 1 or nil
    for place = 2, #heads do
      local head, leader = heads[place], heads[best]
      if head.score < leader.score or (head.score == leader.score and head.id < leader.id) then
        best = place
      end
    end
    if not best then
      return nil
    end
    local head = heads[best]
    local b = ball.load(t.base, head.id)
    b.score = head.score
    head.score, head.id = head.next_of()
    if not head.score then
      table.remove(heads, best)
    end
    return b
  end
end

local function in_order(t, x)
  local next_flagged, next_active = flagged_in_order(t, x), nil
  return function()
    local b = not next_active and next_flagged()
    if b then
      return b
    end
    next_active = next_active or active_in_order(t, x)
    return next_active()
  end
end

-- The next ball of the order that holds an arm allowed. If too many are passed by, the arms are
-- looked up instead, and there is nothing left to walk over.
local function walk(t, x, allowed, order)
  local tired = {}
  local most = allowed.arms and math.min(#allowed.arms, MOST_FOR_EACH * allowed.wanted)
  local b = order.next_of()
  while b and not holds(t, b, allowed) do
    order.passed = order.passed + 1
    if most and order.passed > math.max(most, MOST_PASSED) then
      order.balls, order.next_of = look_up(t, x, allowed), nil
      return
    elseif
      b.phase == phase.ACTIVE
      and not allowed.arms
      and allowed.taken_count == 0
      and #tired < MOST_TO_SLEEP
    then
      tired[#tired + 1] = b
    end
    b = order.next_of()
  end
  for _, sleepy in ipairs(tired) do
    ranking.sleep(t.base, sleepy)
  end
  if b then
    table.insert(order.balls, b)
  else
    order.next_of = nil
  end
end

local function new_order(t, x, allowed)
  if allowed.arms and #allowed.arms <= FEW then
    return { balls = look_up(t, x, allowed) }
  end
  return { balls = {}, passed = 0, next_of = in_order(t, x) }
end

-- The first ball from this place on that holds an arm allowed; those that hold none are dropped.
local function first_from(t, x, allowed, place)
  local order = allowed.order
  while true do
    local b = order.balls[place]
    if b and holds(t, b, allowed) then
      return b
    elseif b then
      table.remove(order.balls, place)
    elseif order.next_of then
      walk(t, x, allowed, order)
    else
      return nil
    end
  end
end

-- The ball to play, if any, and if that is an active one, the second.
local function first_two(t, x, allowed)
  local first = first_from(t, x, allowed, 1)
  if not first or first.phase == phase.FLAGGED then
    return first
  end
  local walked = allowed.order.balls
  local second = first_from(t, x, allowed, 2)
  if allowed.order.balls ~= walked then -- the arms have been looked up meanwhile
    return first_two(t, x, allowed)
  end
  return first, second
end

-- The ball to play, or nil; and, if it is an active one, how it ranks against the second.
function search.best(t, x, allowed)
  allowed.order = allowed.order or new_order(t, x, allowed)
  local first, second = first_two(t, x, allowed)
  if not first and not allowed.arms and allowed.taken_count == 0 then
    -- Balls whose arms were resumed may be asleep still, if that was cut short.
    return search.best(t, x, catalogue.allowed(t, catalogue.some_live(t, FEW), 1))
  end
  local found = interval.nothing()
  if second then
    interval.consider(found, first.score, first.id)
    interval.consider(found, second.score, second.id)
  end
  return first, found
end
