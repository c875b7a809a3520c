-- include: tenant phase catalogue choosing lottery decision ledger journal
--
-- Chooses the arms to play at a context, best first, and records the decisions.
--
-- Guarantee: one decision id is one decision. The same id and context again gets the first
--   answer and changes nothing; the same id with another context is refused.
-- KEYS[1]  the tenant's hash
-- ARGV[1]  revision of the tenant that the caller knows
-- ARGV[2]  decision id; those after the first have it with ".2", ".3", … behind it
-- ARGV[3]  slot that the id tells, or ""
-- ARGV[4]  context, in [0, 1], 17 digits
-- ARGV[5]  the context as it was sent, 17 digits, or "" if it is the same
-- ARGV[6]  now, ms
-- ARGV[7]  how many arms are wanted
-- ARGV[8]  the arms that are eligible, all live, in ascending order, packed in 32 bits each; "" for
--          all live ones
-- ARGV[9]  how each arm is chosen, a letter each: "b" as the best, "u" uniformly, "h" uniformly for
--          the holdout
-- ARGV[10] arms drawn uniformly from those that may be played, as many as are wanted or as there
--          are, packed in 32 bits each; "" if all letters are "b"
-- ARGV[11] how likely all arms are chosen for the holdout, 17 digits
-- ARGV[12] how likely an arm is chosen uniformly otherwise, 17 digits
-- ARGV[13] how many arms may be played
-- ARGV[14] from how many contexts a scale is learned, to which this one belongs then; or 0
-- Derived  path balls arms catalogue states active means flagged asked cells claims forward curve
--          waiting contexts decisions pointer slots ledger log
-- Returns  {"selected", issued at in ms, context of the decisions in 17 digits, ball due for a
--          split or "" (the holdout, which changes nothing, finds none), then for each decision
--          arm, ball, phase, propensity in 17 digits}
--          {"conflict"} {"none_eligible"} {"stale"} {"frozen"} {"unknown_tenant"}
-- Cost     O(depth + log balls) for each arm wanted; with eligible or paused arms also, once,
--          O(arms named · depth) or O(balls that are passed by)
local tenant_key = KEYS[1]
local revision = ARGV[1]
local id = ARGV[2]
local hint = ARGV[3]
local x = tonumber(ARGV[4])
local raw = tonumber(ARGV[5])
local now = tonumber(ARGV[6])
local wanted = tonumber(ARGV[7])
local eligible = catalogue.unpack(ARGV[8])
local ways = ARGV[9]
local drawn = catalogue.unpack(ARGV[10])
local holdout_share = tonumber(ARGV[11])
local floor = tonumber(ARGV[12])
local playable = tonumber(ARGV[13])
local gathered = tonumber(ARGV[14])

local t, refusal = tenant.at_revision(tenant_key, revision, now)
if not t then
  return { refusal }
end

local function id_of(place)
  return place == 1 and id or id .. "." .. place
end

local DUE = 4
local reply = { "selected", string.format("%.17g", now), ARGV[4], "" }
local function tell(d)
  reply[2], reply[3] = string.format("%.17g", d.at), string.format("%.17g", d.x)
  for _, part in ipairs({ d.arm, d.ball, phase.NAME[d.phase] }) do
    reply[#reply + 1] = part
  end
  reply[#reply + 1] = string.format("%.17g", d.propensity)
end

local known = decision.find(t, id, hint, now)
if known then
  if (known.raw or known.x) ~= (raw or x) then
    return { "conflict" }
  end
  local place = 1
  while known and place <= wanted do
    tell(known)
    place = place + 1
    known = decision.find(t, id_of(place), hint, now)
  end
  return reply
end

local allowed = catalogue.allowed(t, eligible, wanted)
local draw = { ways = ways, arms = drawn, held = holdout_share, floor = floor, of = playable }

for place, d in ipairs(lottery.rank(t, x, allowed, draw, now)) do
  if not d.holdout then
    choosing.play(t, d, now)
    reply[DUE] = d.due and d.ball or reply[DUE]
  end
  d.id, d.at, d.raw = id_of(place), now, raw
  decision.open(t, d, hint)
  ledger.issued(t, d)
  journal.decision(t, now, "selected", d)
  tenant.count(tenant_key, "trials_" .. (d.holdout and "holdout" or phase.NAME[d.phase]), 1)
  tell(d)
end
if #reply == DUE then
  return { "none_eligible" }
end
if gathered > 0 then
  tenant.gather(t, raw, gathered)
end
return reply
