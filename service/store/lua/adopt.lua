-- include:
--
-- Makes a tenant of what was imported: its hash appears, and with it everything else.
--
-- Guarantee: a tenant of that name that is there is left alone; the same call again replies as the
--   first did.
-- KEYS[1]  the tenant's hash
-- ARGV[1]  incarnation under which everything was written
-- Derived  staged
-- Returns  {"adopted"} {"exists"} {"gone"}: nothing was staged, or no longer
-- Cost     O(1)
local tenant_key = KEYS[1]
local incarnation = ARGV[1]

local present = redis.call("HGET", tenant_key, "incarnation")
if present then
  return { present == incarnation and "adopted" or "exists" }
end
local staged = key.staged(key.base(tenant_key, incarnation))
if redis.call("EXISTS", staged) == 0 then
  return { "gone" }
end
redis.call("PERSIST", staged)
redis.call("RENAME", staged, tenant_key)
return { "adopted" }
