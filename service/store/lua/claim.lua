-- include: tenant phase ball claim
--
-- Claims the split of a full flagged ball for a token, or renews the claim.
--
-- Guarantee: at any time at most one token holds a claim on a ball. A claim past its deadline
--   belongs to whoever asks next, with the ids that it had reserved for the children. While the
--   tenant is frozen, nobody gets a claim who does not have it.
-- KEYS[1]  the tenant's hash
-- ARGV[1]  incarnation
-- ARGV[2]  ball
-- ARGV[3]  token
-- ARGV[4]  now, ms
-- ARGV[5]  lease, ms
-- Derived  balls claims
-- Returns  {"claimed", the ball's packed record} {"busy"} {"gone"}: split, or not full
-- Cost     O(1)
local tenant_key = KEYS[1]
local incarnation = ARGV[1]
local id = tonumber(ARGV[2])
local token = ARGV[3]
local now = tonumber(ARGV[4])
local lease_ms = tonumber(ARGV[5])

local base = tenant.base_of(tenant_key, incarnation)
local b = base and ball.load(base, id)
if not b or b.phase ~= phase.FLAGGED or b.asked > 0 then
  return { "gone" }
end
local held = claim.read(base, id)
if held and held.token ~= token and held.deadline > now then
  return { "busy" }
end
if not (held and held.token == token) and tenant.is_frozen(tenant_key, now) then
  return { "busy" }
end
held = held or { first = 0, count = 0 }
held.token, held.deadline = token, now + lease_ms
claim.write(base, id, held)
return { "claimed", redis.call("HGET", key.balls(base), id) }
