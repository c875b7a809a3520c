-- include: bitmap curve census
-- The arms of a tenant of the preset `adaptive` that have no curve yet: they are the root's, and
-- the bits of `asked` are those of them that are live.
local untried = { ROOT = 0 }

local ROOT = untried.ROOT

-- Where the root has left its arms to curves, it is gone.
function untried.settle(t, m)
  if m.tried < t.arms then
    redis.call("HSET", t.key, "cells_owed", t.arms, "cells_filled", m.tried)
  else
    redis.call("HSET", t.key, "cells_owed", 0, "cells_filled", 0)
    redis.call("ZREM", key.waiting(t.base), ROOT)
  end
end

-- A curve for an arm that has none, not ranked yet.
function untried.new_curve(t, m, arm, id)
  m.tried = m.tried + 1
  census.count(t, { [0] = 1 }, {})
  untried.settle(t, m)
  return curve.new(arm, id, m.step)
end

-- An arm that is up for a first try, or no longer.
function untried.ask(t, m, arm, asked)
  if redis.call("SETBIT", key.asked(t.base, ROOT), arm, asked) ~= asked then
    m.fresh = m.fresh + (asked == 1 and 1 or -1)
  end
end

-- Those of the arms, in their order, that are live and not yet tried.
local function live_of(t, arms)
  local bits, live = redis.call("GET", key.asked(t.base, ROOT)), {}
  for _, arm in ipairs(arms) do
    if bitmap.has(bits, arm) then
      live[#live + 1] = arm
    end
  end
  return live
end

-- The first arm of those allowed that is live and not yet tried; nil if there is none.
function untried.next(t, allowed)
  if allowed.arms then
    allowed.untried = allowed.untried or live_of(t, allowed.arms)
    for _, arm in ipairs(allowed.untried) do
      if not allowed.taken[arm] then
        return arm
      end
    end
    return nil
  end
  local asked = key.asked(t.base, ROOT)
  local arm = redis.call("BITPOS", asked, 1, 0, -1, "BIT")
  while arm >= 0 and allowed.taken[arm] do
    arm = redis.call("BITPOS", asked, 1, arm + 1, -1, "BIT")
  end
  return arm >= 0 and arm or nil
end
