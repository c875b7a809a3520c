-- include:
--
-- Notes that a tenant is to be deleted, so that any service can finish it.
--
-- Guarantee: a full store takes the note, too: a deletion is what gives memory back. The same call
--   again changes nothing.
-- KEYS[1]  the list of deletions
-- ARGV[1]  tenant
-- ARGV[2]  incarnation to be deleted
-- Returns  {"condemned"}
-- Cost     O(1)
local deletions = KEYS[1]
local name = ARGV[1]
local incarnation = ARGV[2]

redis.call("SADD", deletions, name .. " " .. incarnation)
return { "condemned" }
