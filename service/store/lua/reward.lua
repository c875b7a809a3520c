-- include: tenant phase learning decision closing
--
-- Credits a reward to its decision's ball, in the phase that the ball is in now.
--
-- Guarantee: a decision is credited once, whatever is repeated and by whom. A repeat of the same
--   attempt gets the first answer; a refusal that is repeated may be counted again.
-- KEYS[1]  the tenant's hash
-- ARGV[1]  revision of the tenant that the caller knows
-- ARGV[2]  decision id
-- ARGV[3]  slot that the id tells, or ""
-- ARGV[4]  reward, 17 digits
-- ARGV[5]  now, ms
-- ARGV[6]  attempt, a number of 24 bits that the caller drew for this call
-- Derived  balls forward arms states path active means flagged waiting asked cells samples claims
--          curve decisions pointer ledger log
-- Returns  {"applied", ball credited, its phase, ball due for a split or ""}
--          {"duplicate"} {"conflict", the reward that stands} {"censored"} {"ignored"} {"late"}
--          {"unknown_decision"} {"stale"} {"frozen"} {"unknown_tenant"}
-- Cost     O(depth + log balls); under the preset `adaptive` O(log balls) for each ball of three
--          curves
local tenant_key = KEYS[1]
local revision = ARGV[1]
local id = ARGV[2]
local hint = ARGV[3]
local reward = tonumber(ARGV[4])
local now = tonumber(ARGV[5])
local attempt = tonumber(ARGV[6])

local t, refusal = tenant.at_revision(tenant_key, revision, now)
if not t then
  return { refusal }
end

local function refuse(status, detail)
  tenant.count(tenant_key, "rewards_" .. status, 1)
  return { status, detail }
end

local d = decision.find(t, id, hint, now)
if not d then
  tenant.count(tenant_key, "rewards_unknown", 1)
  return { "unknown_decision" }
end
local again = d.state == decision.REWARDED and d.attempt == attempt
if d.state == decision.REWARDED and not again then
  if d.reward == reward then
    return refuse("duplicate")
  end
  return refuse("conflict", string.format("%.17g", d.reward))
elseif d.state == decision.CENSORED then
  tenant.count(tenant_key, "rewards_conflict", 1)
  return { "censored" }
elseif not again and (d.state ~= decision.OPEN or now > d.at + t.window_ms) then
  return refuse("late")
end

local spot = closing.spot(t, d)
if not spot and not d.holdout and not again then
  return refuse("ignored")
end
if not again then
  closing.credit(t, d, spot, decision.REWARDED, reward, now, attempt)
  tenant.count(tenant_key, d.holdout and "rewards_holdout" or "rewards_applied", 1)
end
if not spot then
  return { "applied", d.ball, phase.NAME[d.phase], "" }
end
local due = learning.due(t, spot, now)
return { "applied", spot.id, phase.NAME[spot.phase], due and spot.id or "" }
