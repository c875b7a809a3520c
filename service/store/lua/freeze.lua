-- include: tenant claim
--
-- Freezes a tenant for an export, or renews the freeze. Until it runs out requests are refused and
-- no split is begun; splits under way go on, and the caller asks again until there are none.
--
-- Guarantee: of several freezes one holds. One that ran out is not renewed, since the tenant may
--   have changed, nor is one that another came after. A claim past its deadline is taken from its
--   holder, so that no split of a worker that was thought dead is published into the freeze.
-- KEYS[1]  the tenant's hash
-- ARGV[1]  incarnation
-- ARGV[2]  token
-- ARGV[3]  now, ms
-- ARGV[4]  lease, ms
-- ARGV[5]  1 to renew the freeze that the token has, 0 for a new one
-- Derived  claims
-- Returns  {"frozen", number of splits under way} {"busy"}: by someone else {"lapsed"} {"gone"}
-- Cost     O(splits under way)
local tenant_key = KEYS[1]
local incarnation = ARGV[1]
local token = ARGV[2]
local now = tonumber(ARGV[3])
local lease_ms = tonumber(ARGV[4])
local renews = ARGV[5]
local NOBODY = ""

local base = tenant.base_of(tenant_key, incarnation)
if not base then
  return { "gone" }
end
local holder = redis.call("HGET", tenant_key, "frozen_by")
local is_frozen = tenant.is_frozen(tenant_key, now)
if is_frozen and holder ~= token then
  return { "busy" }
end
if not is_frozen and (renews == "1" or holder == token) then
  return { "lapsed" }
end
local until_ms = string.format("%.17g", now + lease_ms)
redis.call("HSET", tenant_key, "frozen_by", token, "frozen_until_ms", until_ms)
local under_way = 0
for _, id in ipairs(redis.call("HKEYS", key.claims(base))) do
  local held = claim.read(base, id)
  if held.deadline > now then
    under_way = under_way + 1
  elseif held.token ~= NOBODY then
    held.token = NOBODY
    claim.write(base, id, held)
  end
end
return { "frozen", under_way }
