-- include: tenant
--
-- Reads the tenant's counters, at one moment.
--
-- KEYS[1]  the tenant's hash
-- ARGV[1]  incarnation
-- Derived  (none)
-- Returns  {"stats", counter, value, counter, value, …} {"gone"}
-- Cost     O(depth)
local tenant_key = KEYS[1]
local incarnation = ARGV[1]

if not tenant.base_of(tenant_key, incarnation) then
  return { "gone" }
end
local names = {
  "trials_active",
  "trials_flagged",
  "rewards_applied",
  "rewards_duplicate",
  "rewards_conflict",
  "rewards_late",
  "splits",
  "active",
  "flagged",
  "depth",
  "next_ball",
}
for depth = 1, tonumber(redis.call("HGET", tenant_key, "depth")) do
  names[#names + 1] = "clusters_" .. depth
end
local values = redis.call("HMGET", tenant_key, unpack(names))
local reply = { "stats" }
for place, name in ipairs(names) do
  reply[#reply + 1] = name
  reply[#reply + 1] = values[place] or "0"
end
return reply
