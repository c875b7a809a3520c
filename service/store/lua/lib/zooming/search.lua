-- include: interval ranking phase arm_set catalogue lookup turns
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
-- So many balls are passed by, or so many for each arm that is wanted and as many as there are arms
-- to look up, before they are looked up after all.
local MOST_PASSED, MOST_FOR_EACH = 100, 16

local function holds(t, b, allowed)
  return arm_set.first_allowed(t.base, b, b.cursor, allowed) ~= nil
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
      order.balls, order.next_of = lookup.best(t, x, allowed), nil
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
    return { balls = lookup.best(t, x, allowed) }
  end
  return { balls = {}, passed = 0, next_of = turns.at(t, x) }
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
