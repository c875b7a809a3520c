-- include:
--
-- Ends a freeze before it runs out.
--
-- Guarantee: nobody else's freeze is ended; the same call again changes nothing.
-- KEYS[1]  the tenant's hash
-- ARGV[1]  token of the freeze
-- Returns  {"thawed"}
-- Cost     O(1)
local tenant_key = KEYS[1]
local token = ARGV[1]

if redis.call("HGET", tenant_key, "frozen_by") == token then
  redis.call("HDEL", tenant_key, "frozen_by", "frozen_until_ms")
end
return { "thawed" }
