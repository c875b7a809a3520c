-- include: tenant path phase arm_set claim catalogue cells
-- The flagged phase of a ball: its place in the queue of its interval, and when it is full.
local flagged = {}

-- How many samples fill all cells of the ball; so many at the most that sums of it stay exact.
local function owed(b, buckets)
  return math.min(b.k * buckets * b.arms, 2 ^ 40)
end

-- Brings `path` up to date with the head of the queue.
function flagged.refresh(base, b)
  local head = redis.call("ZRANGE", key.flagged(base, b.depth, b.index), 0, 0)[1]
  path.note(base, { [path.field("f", b.depth, b.index)] = head or false })
end

-- Makes the ball flagged, last in the queue of its interval. The caller saves the record.
function flagged.enter(t, b, now)
  b.phase, b.cursor, b.filled, b.asked = phase.FLAGGED, 0, 0, 0
  if b.k > 0 then
    cells.ask_live_arms(t, b)
  end
  local order = tenant.count(t.key, "flag_order", 1)
  redis.call("ZADD", key.flagged(t.base, b.depth, b.index), order, b.id)
  flagged.refresh(t.base, b)
  redis.call("ZADD", key.waiting(t.base), now, b.id)
  tenant.count(t.key, "cells_owed", owed(b, t.buckets))
end

-- The ball's place in the queue of its interval.
function flagged.order(base, b)
  return tonumber(redis.call("ZSCORE", key.flagged(base, b.depth, b.index), b.id))
end

-- Takes the ball out of the queue of its interval.
function flagged.leave(tenant_key, base, b, buckets)
  redis.call("ZREM", key.flagged(base, b.depth, b.index), b.id)
  flagged.refresh(base, b)
  redis.call("ZREM", key.waiting(base), b.id)
  -- Not "-0", which the server does not take for an integer.
  tenant.count(tenant_key, "cells_owed", 0 - owed(b, buckets))
  tenant.count(tenant_key, "cells_filled", 0 - b.filled)
end

-- Whether it is complete: nobody is asked any more, and not merely since all its arms are paused.
local function is_full(t, b)
  if b.asked > 0 then
    return false
  end
  return b.k == 0
    or t.muted == 0
    or arm_set.first_from(t.base, b, b.cursor, function(arm)
        return catalogue.is_live(t, arm)
      end)
      ~= nil
end

-- Whether the ball is full and nobody is at work on its split.
function flagged.due(t, b, now)
  if b.phase ~= phase.FLAGGED or not is_full(t, b) then
    return false
  end
  local held = claim.read(t.base, b.id)
  return not held or held.deadline <= now
end
