-- include:
--
-- Deletes a tenant: from here on it is unknown. Its other keys are swept afterwards.
--
-- Guarantee: only the incarnation named is deleted. The same call again replies as the first did,
--   until all is swept.
-- KEYS[1]  the tenant's hash
-- ARGV[1]  incarnation
-- Derived  deleted
-- Returns  {"deleted"} {"gone"}
-- Cost     O(1)
local tenant_key = KEYS[1]
local incarnation = ARGV[1]

local base = key.base(tenant_key, incarnation)
if redis.call("HGET", tenant_key, "incarnation") == incarnation then
  redis.call("RENAME", tenant_key, key.deleted(base))
elseif redis.call("EXISTS", key.deleted(base)) == 0 then
  return { "gone" }
end
return { "deleted" }
