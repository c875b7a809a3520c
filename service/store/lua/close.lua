-- include: tenant learning decision closing
--
-- Closes some decisions whose window is over, with the default reward if there is one, or forgets
-- those whose retention is over.
--
-- Guarantee: each decision is closed once, whoever calls this and however often.
-- KEYS[1]  the tenant's hash
-- ARGV[1]  revision of the tenant that the caller knows
-- ARGV[2]  now, ms
-- ARGV[3]  slot that the last call was at, or ""
-- ARGV[4]  where in that slot to go on, as the last call replied
-- Derived  balls forward arms states path active means flagged waiting asked cells samples claims
--          curve decisions slots ledger log
-- Returns  {"more", slot, where to go on in it, ball due for a split before that or ""}
--          {"idle", when the next slot is due, ms, or ""} {"stale"} {"frozen"} {"unknown_tenant"}
-- Cost     that of a few rewards
local tenant_key = KEYS[1]
local revision = ARGV[1]
local now = tonumber(ARGV[2])
local last_slot = ARGV[3]
local cursor = ARGV[4]
local READ_AT_ONCE = 100

local t, refusal = tenant.at_revision(tenant_key, revision, now)
if not t then
  return { refusal }
end
local first = redis.call("ZRANGE", key.slots(t.base), 0, 0, "WITHSCORES")
local slot, due_ms = first[1], tonumber(first[2])
if not slot or due_ms > now then
  return { "idle", first[2] or "" }
end
tenant.note_change(tenant_key)
local closing_ms = decision.closing_ms(t, tonumber(slot))
if due_ms > closing_ms then
  redis.call("UNLINK", key.decisions(t.base, slot))
  redis.call("ZREM", key.slots(t.base), slot)
  return { "more", "", "0", "" }
end

if slot ~= last_slot then
  cursor = "0"
end
-- A slot that has grown since its scan began is scanned once more: some may have been passed over.
local place_in_slot, length_then = string.match(cursor, "^(%d+) ?(%d*)$")
local length = redis.call("HLEN", key.decisions(t.base, slot))
length_then = tonumber(length_then) or length
local found = redis.call("HSCAN", key.decisions(t.base, slot), place_in_slot, "COUNT", READ_AT_ONCE)
local work = 0
for place = 1, #found[2], 2 do
  if decision.is_open(found[2][place + 1]) then
    if work >= learning.CLOSED_AT_ONCE then
      return { "more", slot, cursor, "" }
    end
    local d = decision.unpack(found[2][place], slot, found[2][place + 1])
    local spot = t.default and closing.spot(t, d)
    if t.default and (spot or d.holdout) then
      closing.credit(t, d, spot, decision.DEFAULTED, t.default, now)
      tenant.count(tenant_key, d.holdout and "rewards_holdout" or "rewards_defaulted", 1)
      if spot and learning.due(t, spot, now) then
        return { "more", slot, cursor, spot.id }
      end
    else
      spot = closing.without_reward(t, d, decision.EXPIRED, now)
    end
    work = work + (spot and spot.work or 1)
  end
end
if found[1] ~= "0" then
  return { "more", slot, string.format("%s %d", found[1], length_then), "" }
end
if length == length_then then
  redis.call("ZADD", key.slots(t.base), closing_ms + t.retention_ms + t.slot_ms, slot)
end
return { "more", slot, "0", "" }
