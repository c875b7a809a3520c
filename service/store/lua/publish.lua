-- include: tenant path ranking phase ball claim cells flagged
--
-- Puts the staged children in the place of their parent: the split itself.
--
-- Guarantee: a ball is split once, by the holder of its claim; the same call again replies as the
--   first did. The partition is complete before and after.
-- KEYS[1]  the tenant's hash
-- ARGV[1]  incarnation
-- ARGV[2]  ball
-- ARGV[3]  token
-- ARGV[4]  id of the first child, as `stage` replied
-- ARGV[5]  children of the left half
-- ARGV[6]  children of the right half
-- ARGV[7]  for how long the arm set is kept to be shown, ms
-- Derived  balls claims path active means flagged waiting forward arms asked cells samples
-- Returns  {"published"} {"lost"}: the claim is someone else's, or gone
-- Cost     O(buckets + log balls), whatever the number of children
local tenant_key = KEYS[1]
local incarnation = ARGV[1]
local id = tonumber(ARGV[2])
local token = ARGV[3]
local first = tonumber(ARGV[4])
local left = tonumber(ARGV[5])
local right = tonumber(ARGV[6])
local keep_ms = tonumber(ARGV[7])

local base = tenant.base_of(tenant_key, incarnation)
local b = base and ball.load(base, id)
if b and b.phase == phase.SPLIT and b.first == first then
  return { "published" }
end
local held = b and claim.read(base, id)
if not held or held.token ~= token or held.first ~= first then
  return { "lost" }
end

local buckets = tonumber(redis.call("HGET", tenant_key, "buckets"))
flagged.leave(tenant_key, base, b, buckets)
ranking.forget_mean(base, b)
b.phase, b.first, b.left, b.right = phase.SPLIT, first, left, right
ball.save(base, b)
claim.drop(base, id)

local depth = b.depth + 1
ranking.add_range(base, depth, 2 * b.index, first, first + left - 1)
ranking.add_range(base, depth, 2 * b.index + 1, first + left, first + left + right - 1)
path.refresh(base, depth, 2 * b.index)
path.refresh(base, depth, 2 * b.index + 1)

redis.call("PERSIST", key.forward(base, id))
redis.call("PEXPIRE", key.arms(base, id), keep_ms)
cells.drop_samples(base, b, buckets)

tenant.count(tenant_key, "splits", 1)
tenant.count(tenant_key, "active", left + right)
tenant.count(tenant_key, "clusters_" .. depth, left + right)
if tonumber(redis.call("HGET", tenant_key, "depth")) < depth then
  redis.call("HSET", tenant_key, "depth", depth)
end
return { "published" }
