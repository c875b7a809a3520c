-- include: tenant claim
--
-- Writes some of a claimed ball's children, and some of the table that forwards late rewards to
-- them. Nothing leads to them before they are published.
--
-- Guarantee: only the holder of the claim writes; the same chunk again changes nothing. The ids of
--   the children are reserved at the first call, and kept by whoever takes the claim over with the
--   same number of children or fewer.
-- KEYS[1]  the tenant's hash
-- ARGV[1]  incarnation
-- ARGV[2]  ball
-- ARGV[3]  token
-- ARGV[4]  number of children in all
-- ARGV[5]  place of the first child of this chunk among them, from 0
-- ARGV[6]  byte offset of the part of the forwarding table
-- ARGV[7]  the part of the forwarding table, or ""
-- ARGV[8]  for how long the table is kept if it is never published, ms
-- ARGV[9…] packed record and packed arm set of each child of the chunk
-- Derived  claims balls arms forward
-- Returns  {"staged", id of the first child} {"lost"}: the claim is someone else's, or gone
-- Cost     O(children of the chunk)
local tenant_key = KEYS[1]
local incarnation = ARGV[1]
local id = ARGV[2]
local token = ARGV[3]
local count = tonumber(ARGV[4])
local place = tonumber(ARGV[5])
local offset = tonumber(ARGV[6])
local forward = ARGV[7]
local keep_ms = tonumber(ARGV[8])
local CHILDREN = 9

local base = tenant.base_of(tenant_key, incarnation)
local held = base and claim.read(base, id)
if not held or held.token ~= token then
  return { "lost" }
end
if held.count < count then
  held.first = tenant.count(tenant_key, "next_ball", count) - count
  held.count = count
  claim.write(base, id, held)
end

local records, arm_sets = {}, {}
for child = 0, (#ARGV - CHILDREN + 1) / 2 - 1 do
  local child_id = held.first + place + child
  records[#records + 1] = child_id
  records[#records + 1] = ARGV[CHILDREN + 2 * child]
  arm_sets[#arm_sets + 1] = key.arms(base, child_id)
  arm_sets[#arm_sets + 1] = ARGV[CHILDREN + 2 * child + 1]
end
if #records > 0 then
  redis.call("HSET", key.balls(base), unpack(records))
  redis.call("MSET", unpack(arm_sets))
end
if forward ~= "" then
  redis.call("SETRANGE", key.forward(base, id), offset, forward)
  redis.call("PEXPIRE", key.forward(base, id), keep_ms)
end
return { "staged", held.first }
