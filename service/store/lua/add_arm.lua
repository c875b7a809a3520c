-- include: tenant settling journal
--
-- Adds an arm: it enters as an active ball of its own, over all contexts.
--
-- Guarantee: an arm is added once; the same call again replies as the first did. The partition is
--   complete before and after.
-- KEYS[1]  the tenant's hash
-- ARGV[1]  revision of the tenant that the caller knows
-- ARGV[2]  revision that it has afterwards, drawn by the caller
-- ARGV[3]  name of the arm, not yet in the catalogue
-- ARGV[4]  the ball's packed record; "" under the preset `adaptive`
-- ARGV[5]  now, ms
-- Derived  catalogue balls arms path active means waiting curve log
-- Returns  {"added"} {"stale"} {"frozen"} {"unknown_tenant"}
-- Cost     O(log balls)
local tenant_key = KEYS[1]
local revision = ARGV[1]
local next_revision = ARGV[2]
local name = ARGV[3]
local record = ARGV[4]
local now = tonumber(ARGV[5])

if redis.call("HGET", tenant_key, "revision") == next_revision then
  return { "added" }
end
local t, refusal = tenant.at_revision(tenant_key, revision, now)
if not t then
  return { refusal }
end
local arm = tenant.count(tenant_key, "arms_ever", 1) - 1
t.arms = tenant.count(tenant_key, "arms", 1)
local id = tenant.count(tenant_key, "next_ball", 1) - 1
redis.call("HSET", key.catalogue(t.base), arm, struct.pack("<I4", id) .. name)
settling.add_arm(t, id, arm, record)
journal.arm(t, now, "arm_added", arm)
redis.call("HSET", tenant_key, "revision", next_revision)
return { "added" }
