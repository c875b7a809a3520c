-- include: interval ball
-- The balls of the paper's presets at a context, in the order of their turns.
local turns = {}

local PORTION = 16

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

-- The flagged balls at x, then the active ones from the best one on: each call gives the next.
function turns.at(t, x)
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
