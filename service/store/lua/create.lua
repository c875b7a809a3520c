-- include: tenant bitmap ball flagged
--
-- Creates a tenant: its hash, and the root ball, flagged.
--
-- Under the preset `adaptive` the root has no record: its arms are those not yet tried, and asked
-- are those of them that are live.
--
-- Guarantee: of several creations one wins; the winner's call again replies as the first did.
-- KEYS[1]  the tenant's hash
-- ARGV[1]  incarnation, drawn by the caller
-- ARGV[2]  the root's packed record, or ""
-- ARGV[3]  the root's packed arm set, or ""
-- ARGV[4]  now, ms
-- ARGV[5…] field and value of each constant, the document among them
-- Derived  balls arms asked flagged path waiting
-- Returns  {"created"} {"exists"}
-- Cost     O(size of the arguments)
local tenant_key = KEYS[1]
local incarnation = ARGV[1]
local root = ARGV[2]
local arms = ARGV[3]
local now = tonumber(ARGV[4])
local CONSTANTS = 5

local present = redis.call("HGET", tenant_key, "incarnation")
if present then
  return { present == incarnation and "created" or "exists" }
end
local base = key.base(tenant_key, incarnation)
redis.call("HSET", tenant_key, "incarnation", incarnation, "next_ball", 1, "depth", 0)
redis.call("HSET", tenant_key, "sums", struct.pack("<ddd", 0, 0, 0))
redis.call("HSET", tenant_key, unpack(ARGV, CONSTANTS))
if root == "" then
  local count = tonumber(redis.call("HGET", tenant_key, "arms"))
  redis.call("SET", key.asked(base, 0), bitmap.all_set(count))
  redis.call("ZADD", key.waiting(base), now, 0)
  tenant.count(tenant_key, "cells_owed", count)
  return { "created" }
end
redis.call("SET", key.arms(base, 0), arms)
local b = ball.unpack(0, root)
local buckets = tonumber(redis.call("HGET", tenant_key, "buckets"))
flagged.enter({ key = tenant_key, base = base, buckets = buckets, muted = 0 }, b, now)
ball.save(base, b)
return { "created" }
