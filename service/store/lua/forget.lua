-- include:
--
-- Takes a swept tenant off the list of tenants.
--
-- Guarantee: a new tenant of the same name stays on the list.
-- KEYS[1]  the list of tenants
-- ARGV[1]  tenant
-- ARGV[2]  incarnation that was deleted
-- Returns  {"forgotten"} {"kept"}
-- Cost     O(1)
local registry = KEYS[1]
local name = ARGV[1]
local incarnation = ARGV[2]

if redis.call("HGET", registry, name) ~= incarnation then
  return { "kept" }
end
redis.call("HDEL", registry, name)
return { "forgotten" }
