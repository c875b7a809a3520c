-- include: tenant
--
-- Notes contexts as they were sent, for the scale that is learned from the first of them.
--
-- Guarantee: never more than are wanted are noted, and their order stays.
-- KEYS[1]  the tenant's hash
-- ARGV[1]  revision of the tenant that the caller knows
-- ARGV[2]  contexts, packed in 64 bits each
-- ARGV[3]  how many are wanted in all
-- ARGV[4]  now, ms
-- Derived  contexts
-- Returns  {"gathered", those noted before, packed in the same way} {"stale"} {"frozen"}
--          {"unknown_tenant"}
-- Cost     O(contexts noted)
local tenant_key = KEYS[1]
local revision = ARGV[1]
local contexts = ARGV[2]
local wanted = tonumber(ARGV[3])
local now = tonumber(ARGV[4])
local BYTES = 8

local t, refusal = tenant.at_revision(tenant_key, revision, now)
if not t then
  return { refusal }
end
local seen = redis.call("GET", key.contexts(t.base)) or ""
local missing = BYTES * wanted - #seen
if missing > 0 then
  tenant.note_change(tenant_key)
  redis.call("APPEND", key.contexts(t.base), string.sub(contexts, 1, missing))
end
return { "gathered", seen }
