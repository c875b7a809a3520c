-- include: interval ranking ball flagged catalogue
-- Which ball of the paper's presets is played where not every arm may be: the best one that holds
-- an arm that may.
local search = {}

-- So few arms are looked up one by one; of more, some ball that ranks high is likely to hold one.
local FEW = 64
-- Balls without a live arm that a select puts to sleep on its way; the rest are passed by.
local MOST_TO_SLEEP = 64
local PORTION = 16

local function holds(t, b, allowed)
  return ball.first_from(t.base, b, b.cursor, allowed.has) ~= nil
end

-- Looks up each arm's ball. A flagged one comes first, the widest, the first of its queue.
local function by_arms(t, x, allowed)
  local balls, found, waiting = {}, interval.nothing(), nil
  for _, arm in ipairs(allowed.arms) do
    local b = ball.holding(t, arm, x)
    if b and not balls[b.id] then
      balls[b.id] = b
      if b.phase == ball.ASLEEP then -- one of its arms has just been resumed
        ranking.wake(t.base, b, t.confidence)
      end
      if b.phase ~= ball.FLAGGED then
        interval.consider(found, ranking.score(b, t.confidence), b.id)
      else
        b.order = flagged.order(t.base, b)
        if
          not waiting
          or b.depth < waiting.depth
          or (b.depth == waiting.depth and b.order < waiting.order)
        then
          waiting = b
        end
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

-- Walks over the balls at x from the best one on.
local function by_rank(t, x, allowed)
  local heads = {}
  for depth = 0, t.depth do
    local next_of = ranked(key.active(t.base, depth, interval.index(x, depth)))
    local score, id = next_of()
    if score then
      heads[#heads + 1] = { next_of = next_of, score = score, id = id }
    end
  end
  local found, chosen, tired = interval.nothing(), nil, {}
  while #heads > 0 and not found.second do
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
    elseif allowed.count == 0 and #tired < MOST_TO_SLEEP then
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
  if allowed.arms and #allowed.arms <= FEW then
    return by_arms(t, x, allowed)
  end
  local waiting = flagged_on_path(t, x, allowed)
  if waiting then
    return waiting, interval.nothing()
  end
  return by_rank(t, x, allowed)
end
