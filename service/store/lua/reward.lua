-- include: tenant ranking ball flagged decision ledger
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
-- Derived  balls forward path active means flagged waiting asked cells samples claims decisions
--          pointer ledger
-- Returns  {"applied", ball credited, its phase, ball due for a split or ""}
--          {"duplicate"} {"conflict", the reward that stands} {"late"} {"unknown_decision"}
--          {"stale"} {"unknown_tenant"}
-- Cost     O(depth + log balls)
local tenant_key = KEYS[1]
local revision = ARGV[1]
local id = ARGV[2]
local hint = ARGV[3]
local reward = tonumber(ARGV[4])
local now = tonumber(ARGV[5])
local attempt = tonumber(ARGV[6])

local t, refusal = tenant.at_revision(tenant_key, revision)
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

local b, position = ball.descendant(t.base, ball.load(t.base, d.ball), d.position, d.x)
if not b then
  return refuse("late")
end

if d.state == decision.OPEN then
  if b.phase == ball.FLAGGED then
    flagged.count(t.base, b, t, position, d.x, reward)
  else
    if b.n == 0 and b.selects == 0 then
      ranking.take_fresh(t.base, b)
    end
    b.n = b.n + 1
    b.total = b.total + reward
    if b.n >= b.flag_at then
      ranking.leave(t.base, b)
      tenant.count(tenant_key, "active", -1)
      tenant.count(tenant_key, "clusters_" .. b.depth, -1)
      flagged.enter(tenant_key, t.base, b, t.buckets, now)
    else
      ranking.place(t.base, b, t.confidence)
    end
  end
  ball.save(t.base, b)
  d.state, d.reward, d.attempt = decision.REWARDED, reward, attempt
  decision.save(t, d)
  ledger.rewarded(t, d)
  tenant.count(tenant_key, "rewards_applied", 1)
  local known_best = d.best_mean == d.best_mean and d.best_mean or reward
  tenant.add_to_sums(t, reward, d.bound - reward, known_best - reward)
end
local due = flagged.due(t.base, b, now)
return { "applied", b.id, ball.PHASE[b.phase], due and b.id or "" }
