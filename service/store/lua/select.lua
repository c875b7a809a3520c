-- include: tenant interval ranking ball flagged decision ledger
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
-- Derived  path balls arms active asked cells claims decisions pointer ledger
-- Returns  {"selected", arm, ball, phase, issued at in ms, ball due for a split or ""}
--          {"conflict"} {"stale"} {"unknown_tenant"}
-- Cost     O(depth + log balls)
local tenant_key = KEYS[1]
local revision = ARGV[1]
local id = ARGV[2]
local hint = ARGV[3]
local x = tonumber(ARGV[4])
local now = tonumber(ARGV[5])

local t, refusal = tenant.at_revision(tenant_key, revision)
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

local chosen_id, best_mean = interval.choose(t.base, x, t.depth)
local chosen = ball.load(t.base, chosen_id)
local d = { id = id, at = now, x = x, ball = chosen.id, phase = chosen.phase, bound = 1 }
d.best_mean = best_mean or 0 / 0
-- As it is met: when this very select sets the last arm aside, its reward may still complete it.
local due = flagged.due(t.base, chosen, now)
if chosen.phase == ball.FLAGGED then
  d.position = flagged.pick(t.base, chosen, t)
else
  d.position = ball.next_in_turn(chosen)
  d.bound = math.min(ranking.ucb(chosen, t.confidence), 1)
  if chosen.n == 0 then
    if chosen.selects == 0 then
      ranking.take_fresh(t.base, chosen)
    end
    chosen.selects = chosen.selects + 1
    ranking.place(t.base, chosen, t.confidence)
  end
end
ball.save(t.base, chosen)
d.arm = ball.arm_at(t.base, chosen, d.position)
decision.open(t, d, hint)
ledger.issued(t, d)
tenant.count(tenant_key, "trials_" .. ball.PHASE[d.phase], 1)
return answer(d, due)
