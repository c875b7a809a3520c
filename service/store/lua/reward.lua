-- include: tenant ball zooming adaptive decision ledger
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
-- ARGV[6]  attempt, a number of 32 bits that the caller drew for this call
-- Derived  balls forward path active means flagged waiting asked cells samples claims curve
--          decisions pointer ledger
-- Returns  {"applied", ball credited, its phase, ball due for a split or ""}
--          {"duplicate"} {"conflict", the reward that stands} {"late"} {"unknown_decision"}
--          {"stale"} {"frozen"} {"unknown_tenant"}
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
if d.state == decision.REWARDED and d.attempt ~= attempt then
  if d.reward == reward then
    return refuse("duplicate")
  end
  return refuse("conflict", string.format("%.17g", d.reward))
end
if d.state == decision.OPEN and now > d.at + t.window_ms then
  return refuse("late")
end

local rule = t.preset == "adaptive" and adaptive or zooming
local spot = rule.locate(t, d)
if not spot then
  return refuse("late")
end

if d.state == decision.OPEN then
  local value = tenant.to_unit(t, reward)
  rule.credit(t, spot, d, value, now)
  d.state, d.reward, d.attempt = decision.REWARDED, reward, attempt
  decision.save(t, d)
  ledger.rewarded(t, d)
  tenant.count(tenant_key, "rewards_applied", 1)
  local known_best = d.best_mean == d.best_mean and d.best_mean or value
  tenant.add_to_sums(t, reward, (d.bound - value) * t.span, (known_best - value) * t.span)
end
local due = rule.due(t, spot, now)
return { "applied", spot.id, ball.PHASE[spot.phase], due and spot.id or "" }
