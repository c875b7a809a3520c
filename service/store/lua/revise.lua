-- include:
--
-- Changes fields of the tenant's hash, and gives the tenant a new revision. A log that is no longer
-- wanted is given back.
--
-- Guarantee: what others changed since the caller read the tenant is not overwritten. The same
--   call again replies as the first did, until the tenant is changed once more.
-- KEYS[1]  the tenant's hash
-- ARGV[1]  revision of the tenant that the caller knows
-- ARGV[2]  new revision, drawn by the caller
-- ARGV[3…] field and value of each constant, the document among them
-- Derived  log
-- Returns  {"revised"} {"stale"} {"unknown_tenant"}
-- Cost     O(size of the arguments)
local tenant_key = KEYS[1]
local revision = ARGV[1]
local new_revision = ARGV[2]
local CONSTANTS = 3

local standing = redis.call("HGET", tenant_key, "revision")
if not standing then
  return { "unknown_tenant" }
end
if standing == new_revision then
  return { "revised" }
end
if standing ~= revision then
  return { "stale" }
end
redis.call("HSET", tenant_key, "revision", new_revision, unpack(ARGV, CONSTANTS))
local now = redis.call("HMGET", tenant_key, "incarnation", "log_entries")
local incarnation, log_entries = now[1], now[2]
if log_entries == "0" then
  redis.call("UNLINK", key.log(key.base(tenant_key, incarnation)))
end
return { "revised" }
