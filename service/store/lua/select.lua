-- include: tenant ball zooming adaptive decision ledger
--
-- Chooses the arm to play at a context and records the decision.
--
-- Guarantee: one decision id is one decision. The same id and context again gets the first
--   answer and changes nothing; the same id with another context is refused.
-- KEYS[1]  the tenant's hash
-- ARGV[1]  revision of the tenant that the caller knows
-- ARGV[2]  decision id
-- ARGV[3]  slot that the id tells, or ""
-- ARGV[4]  context, in [0, 1], 17 digits
-- ARGV[5]  now, ms
-- Derived  path balls arms active means asked cells claims curve waiting decisions pointer
--          ledger
-- Returns  {"selected", arm, ball, phase, issued at in ms, ball due for a split or ""}
--          {"conflict"} {"stale"} {"frozen"} {"unknown_tenant"}
-- Cost     O(depth + log balls)
local tenant_key = KEYS[1]
local revision = ARGV[1]
local id = ARGV[2]
local hint = ARGV[3]
local x = tonumber(ARGV[4])
local now = tonumber(ARGV[5])

local t, refusal = tenant.at_revision(tenant_key, revision, now)
if not t then
  return { refusal }
end

local function answer(d, due)
  local at = string.format("%.17g", d.at)
  return { "selected", d.arm, d.ball, ball.PHASE[d.phase], at, due and d.ball or "" }
end

local known = decision.find(t, id, hint, now)
if known then
  return known.x == x and answer(known, false) or { "conflict" }
end

local rule = t.preset == "adaptive" and adaptive or zooming
local d, due = rule.decide(t, x, now)
d.id, d.at, d.x = id, now, x
decision.open(t, d, hint)
ledger.issued(t, d)
tenant.count(tenant_key, "trials_" .. ball.PHASE[d.phase], 1)
return answer(d, due)
