-- include: interval ranking ball flagged catalogue
-- Which ball of the paper's presets is played where not every arm may be: the best one that holds
-- an arm that may.
local search = {}

-- So few arms are looked up one by one; of more, some ball that ranks high is likely to hold one.
local FEW = 64
-- Balls without a live arm that a select puts to sleep on its way; the rest are passed by.
local MOST_TO_SLEEP = 64
local PORTION = 16
-- So many balls are passed by before the arms are looked up after all.
local MOST_PASSED = 100

local function holds(t, b, allowed)
  return ball.first_allowed(t.base, b, b.cursor, allowed) ~= nil
end

-- The balls that hold the arms at x, each with those arms.
local function look_up(t, x, arms)
  local found = {}
  local level = ball.beginnings(t, arms)
  while next(level) do
    level = ball.next_level(t, level, x, found)
  end
  for _, b in ipairs(found) do
    if b.phase == ball.ASLEEP then -- one of its arms has just been resumed
      ranking.wake(t.base, b, t.confidence)
    elseif b.phase == ball.FLAGGED then
      b.order = flagged.order(t.base, b)
    end
  end
  return found
end

-- Looks up each arm's ball, once. A flagged one comes first, the widest, the first of its queue.
local function by_arms(t, x, allowed)
  allowed.looked_up = allowed.looked_up or look_up(t, x, allowed.arms)
  local balls, found, waiting = {}, interval.nothing(), nil
  for _, b in ipairs(allowed.looked_up) do
    if holds(t, b, allowed) then
      if b.phase ~= ball.FLAGGED then
        balls[b.id] = b
        interval.consider(found, ranking.score(b, t.confidence), b.id)
      elseif
        not waiting
        or b.depth < waiting.depth
        or (b.depth == waiting.depth and b.order < waiting.order)
      then
        waiting = b
      end
    end
  end
  return waiting or balls[found.best], found
end

local function flagged_on_path(t, x, allowed)
  for depth = 0, t.depth do
    local queue = key.flagged(t.base, depth, interval.index(x, depth))
    for _, id in ipairs(redis.call("ZRANGE", queue, 0, -1)) do
      local b = ball.load(t.base, tonumber(id))
      if holds(t, b, allowed) then
        return b
      end
    end
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

-- Walks over the balls at x from the best one on; not over many, if the arms can be looked up.
local function by_rank(t, x, allowed)
  local heads = {}
  for depth = 0, t.depth do
    local next_of = ranked(key.active(t.base, depth, interval.index(x, depth)))
    local score, id = next_of()
    if score then
      heads[#heads + 1] = { next_of = next_of, score = score, id = id }
    end
  end
  local found, chosen, tired, passed = interval.nothing(), nil, {}, 0
  while #heads > 0 and not found.second do
    passed = passed + 1
    if allowed.arms and not chosen and passed > MOST_PASSED then
      return by_arms(t, x, allowed)
    end
    local best = 1
    for place = 2, #heads do
      local head, leader = heads[place], heads[best]
      if head.score < leader.score or (head.score == leader.score and head.id < leader.id) then
        best = place
      end
    end
    local head = heads[best]
    local b = ball.load(t.base, head.id)
    if holds(t, b, allowed) then
      chosen = chosen or b
      interval.consider(found, head.score, head.id)
    elseif not allowed.arms and allowed.taken_count == 0 and #tired < MOST_TO_SLEEP then
      tired[#tired + 1] = b
    end
    head.score, head.id = head.next_of()
    if not head.score then
      table.remove(heads, best)
    end
  end
  for _, b in ipairs(tired) do
    ranking.sleep(t.base, b)
  end
  return chosen, found
end

-- The ball to play, or nil; and, if it is an active one, how it ranks against the second.
function search.best(t, x, allowed)
  if allowed.arms and (#allowed.arms <= FEW or allowed.looked_up) then
    return by_arms(t, x, allowed)
  end
  local waiting = flagged_on_path(t, x, allowed)
  if waiting then
    return waiting, interval.nothing()
  end
  local chosen, found = by_rank(t, x, allowed)
  if not chosen and not allowed.arms and allowed.taken_count == 0 then
    -- Balls whose arms were resumed may be asleep still, if that was cut short.
    return by_arms(t, x, catalogue.allowed(t, catalogue.some_live(t, FEW), 1))
  end
  return chosen, found
end
