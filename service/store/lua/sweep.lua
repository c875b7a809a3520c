-- include: ball
--
-- Gives back the memory of some balls of a deleted tenant, or of all that is left at the end.
--
-- Guarantee: touches nothing but a deleted incarnation; any part may be swept again.
-- KEYS[1]  the tenant's hash, to name the others; a new tenant of this name is not touched
-- ARGV[1]  incarnation that was deleted
-- ARGV[2]  first ball
-- ARGV[3]  number of balls at the most
-- Derived  deleted balls arms forward asked cells samples active flagged path claims
-- Returns  {"more", next ball} {"swept"}
-- Cost     O(balls of the call)
local tenant_key = KEYS[1]
local incarnation = ARGV[1]
local first = tonumber(ARGV[2])
local most = tonumber(ARGV[3])

local base = tenant_key .. ":" .. incarnation .. ":"
local state = redis.call("HMGET", key.deleted(base), "next_ball", "buckets")
if not state[1] then
  return { "swept" }
end
local last = math.min(first + most, tonumber(state[1])) - 1
for id = first, last do
  local b = ball.load(base, id)
  if b then
    local doomed = {
      key.arms(base, id),
      key.forward(base, id),
      key.active(base, b.depth, b.index),
      key.flagged(base, b.depth, b.index),
    }
    if b.phase == ball.FLAGGED then
      doomed[#doomed + 1] = key.asked(base, id)
      doomed[#doomed + 1] = key.cells(base, id)
      for bucket = 0, tonumber(state[2]) - 1 do
        doomed[#doomed + 1] = key.samples(base, id, bucket)
      end
    end
    redis.call("UNLINK", unpack(doomed))
  end
end
if last + 1 < tonumber(state[1]) then
  return { "more", last + 1 }
end
redis.call("UNLINK", key.balls(base), key.path(base), key.claims(base), key.deleted(base))
return { "swept" }
