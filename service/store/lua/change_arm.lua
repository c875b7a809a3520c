-- include: tenant catalogue settling journal
--
-- Pauses, resumes or retires an arm. Under the paper's presets its balls are settled afterwards.
--
-- Guarantee: the same call again replies as the first did.
-- KEYS[1]  the tenant's hash
-- ARGV[1]  revision of the tenant that the caller knows
-- ARGV[2]  revision that it has afterwards, drawn by the caller
-- ARGV[3]  arm, not retired
-- ARGV[4]  its state afterwards: 0 live, 1 paused, 2 retired
-- ARGV[5]  now, ms
-- Derived  states path active means waiting asked curve log
-- Returns  {"changed"} {"stale"} {"frozen"} {"unknown_tenant"}
-- Cost     O(1); under the preset `adaptive` O(log balls) for each ball of the arm
local tenant_key = KEYS[1]
local revision = ARGV[1]
local next_revision = ARGV[2]
local arm = tonumber(ARGV[3])
local state = tonumber(ARGV[4])
local now = tonumber(ARGV[5])
local EVENTS = { [0] = "arm_resumed", "arm_paused", "arm_retired" }

if redis.call("HGET", tenant_key, "revision") == next_revision then
  return { "changed" }
end
local t, refusal = tenant.at_revision(tenant_key, revision, now)
if not t then
  return { refusal }
end
catalogue.change(t, arm, state)
settling.arm_changed(t, arm)
journal.arm(t, now, EVENTS[state], arm)
redis.call("HSET", tenant_key, "revision", next_revision)
return { "changed" }
