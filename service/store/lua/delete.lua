-- include:
--
-- Deletes a tenant: from here on it is unknown. Its other keys are swept afterwards.
--
-- Guarantee: only the incarnation named is deleted, and once.
-- KEYS[1]  the tenant's hash
-- ARGV[1]  incarnation
-- Derived  deleted
-- Returns  {"deleted"} {"gone"}
-- Cost     O(1)
local tenant_key = KEYS[1]
local incarnation = ARGV[1]

if redis.call("HGET", tenant_key, "incarnation") ~= incarnation then
  return { "gone" }
end
local base = tenant_key .. ":" .. incarnation .. ":"
redis.call("RENAME", tenant_key, key.deleted(base))
return { "deleted" }
