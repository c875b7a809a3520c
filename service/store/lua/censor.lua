-- include: tenant decision closing
--
-- Closes a decision so that nothing is ever learned from it.
--
-- Guarantee: a decision that is censored was not credited, and never will be. The same call again
--   replies as the first did.
-- KEYS[1]  the tenant's hash
-- ARGV[1]  revision of the tenant that the caller knows
-- ARGV[2]  decision id
-- ARGV[3]  slot that the id tells, or ""
-- ARGV[4]  now, ms
-- Derived  balls forward states path active curve decisions pointer ledger log
-- Returns  {"censored"} {"conflict", its state} {"late"} {"unknown_decision"} {"stale"}
--          {"frozen"} {"unknown_tenant"}
-- Cost     O(depth + log balls); under the preset `adaptive` O(log balls) for each ball of a curve
local tenant_key = KEYS[1]
local revision = ARGV[1]
local id = ARGV[2]
local hint = ARGV[3]
local now = tonumber(ARGV[4])

local t, refusal = tenant.at_revision(tenant_key, revision, now)
if not t then
  return { refusal }
end
local d = decision.find(t, id, hint, now)
if not d then
  return { "unknown_decision" }
end
if d.state == decision.CENSORED then
  return { "censored" }
end
if d.state == decision.REWARDED or d.state == decision.DEFAULTED then
  return { "conflict", d.state }
end
if d.state == decision.EXPIRED or now > d.at + t.window_ms then
  return { "late" }
end
tenant.note_change(tenant_key)
closing.without_reward(t, d, decision.CENSORED, now)
return { "censored" }
