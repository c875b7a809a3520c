-- include:
--
-- Reads the tenant's counters, at one moment.
--
-- KEYS[1]  the tenant's hash
-- ARGV[1]  incarnation, or "" for whichever there is
-- Derived  waiting ledger slots
-- Returns  {"stats", ledger or "", number of flagged balls, when the first of those that wait for
--          samples was flagged, ms, or "", since when decisions wait to be closed with a default
--          reward, ms, or "", field, value, field, value, …} {"gone"}
-- Cost     O(depth)
local tenant_key = KEYS[1]
local incarnation = ARGV[1]

local LOOKED_AT = 16
local known = redis.call(
  "HMGET",
  tenant_key,
  "incarnation",
  "preset",
  "depth",
  "clusters_0",
  "default_reward",
  "slot_ms",
  "window_ms"
)
local found, preset, deepest, clusters_0 = known[1], known[2], known[3], known[4]
local default, slot_ms, window_ms = known[5], known[6], known[7]
if not found or (incarnation ~= "" and incarnation ~= found) then
  return { "gone" }
end
local base = key.base(tenant_key, found)
local names = {
  "trials_active",
  "trials_flagged",
  "trials_holdout",
  "rewards_applied",
  "rewards_defaulted",
  "rewards_holdout",
  "rewards_ignored",
  "rewards_duplicate",
  "rewards_conflict",
  "rewards_late",
  "rewards_unknown",
  "splits",
  "active",
  "cells_owed",
  "cells_filled",
  "depth",
  "next_ball",
  "created_at_ms",
  "window_ms",
  "retention_ms",
  "section_ms",
  "sums",
  "comparison",
  "arms",
  "muted",
}
-- The paper's root is never active.
for depth = clusters_0 and 0 or 1, tonumber(deepest) do
  names[#names + 1] = "clusters_" .. depth
end
local values = redis.call("HMGET", tenant_key, unpack(names))
-- The root of the preset `adaptive` waits for nothing: it may keep arms that are not worth a try.
local waits = preset ~= "adaptive"
local oldest = waits and redis.call("ZRANGE", key.waiting(base), 0, 0, "WITHSCORES") or {}
-- The beginning of the first slot that has not been closed: those that have are due once more, to
-- be forgotten.
local function first_to_close()
  if not default or default == "" then
    return ""
  end
  local slots = redis.call("ZRANGE", key.slots(base), 0, LOOKED_AT - 1, "WITHSCORES")
  for place = 1, #slots, 2 do
    if tonumber(slots[place + 1]) == (slots[place] + 1) * slot_ms + window_ms then
      return string.format("%.17g", slots[place] * slot_ms)
    end
  end
  return ""
end

local reply = {
  "stats",
  redis.call("GET", key.ledger(base)) or "",
  redis.call("ZCARD", key.waiting(base)),
  oldest[2] or "",
  first_to_close(),
}
for place, name in ipairs(names) do
  reply[#reply + 1] = name
  reply[#reply + 1] = values[place] or "0"
end
return reply
