-- include: phase ball curve curve_record
--
-- Gives back the memory of some balls of a deleted tenant, or of all that is left at the end.
--
-- Guarantee: touches nothing but a deleted incarnation; any part may be swept again.
-- KEYS[1]  the tenant's hash, to name the others; a new tenant of this name is not touched
-- ARGV[1]  incarnation that was deleted
-- ARGV[2]  first ball, or, under the preset `adaptive`, first arm
-- Derived  deleted balls arms forward asked cells samples active means flagged path claims
--          curve waiting catalogue states contexts decisions slots log ledger
-- Returns  {"more", first of the next call} {"swept"}
-- Cost     O(balls of the call)
local tenant_key = KEYS[1]
local incarnation = ARGV[1]
local first = tonumber(ARGV[2])
-- So many keys at the most take about a millisecond.
local MOST_KEYS = 1000

local base = key.base(tenant_key, incarnation)
local state = redis.call("HMGET", key.deleted(base), "next_ball", "buckets", "preset", "arms_ever")
if not state[1] then
  return { "swept" }
end
local doomed = {}

local function doom_ranking(depth, index)
  doomed[key.active(base, depth, index)] = true
  doomed[key.means(base, depth, index)] = true
end

local function doom_balls()
  local buckets, all = tonumber(state[2]), tonumber(state[1])
  local most = math.max(1, math.floor(MOST_KEYS / (buckets + 6)))
  local after = math.min(first + most, all)
  local ids = {}
  for id = first, after - 1 do
    ids[#ids + 1] = id
  end
  for place, packed in ipairs(redis.call("HMGET", key.balls(base), unpack(ids))) do
    local b = packed and ball.unpack(ids[place], packed)
    if b then
      doom_ranking(b.depth, b.index)
      doomed[key.arms(base, b.id)] = true
      doomed[key.forward(base, b.id)] = true
      doomed[key.flagged(base, b.depth, b.index)] = true
      if b.phase == phase.FLAGGED then
        doomed[key.asked(base, b.id)] = true
        doomed[key.cells(base, b.id)] = true
        for bucket = 0, buckets - 1 do
          doomed[key.samples(base, b.id, bucket)] = true
        end
      end
    end
  end
  return after, all
end

local function doom_curves()
  local all = tonumber(state[4])
  local after = first
  local size = 0
  while after < all and size < MOST_KEYS do
    local c = curve_record.load(base, after)
    -- An arm that has none was never tried, or was swept before, with its rankings.
    if c then
      for place = 1, c.balls do
        doom_ranking(curve.interval(c, place))
      end
      doomed[key.curve(base, after)] = true
      size = size + 2 * c.balls + 1
    end
    after, size = after + 1, size + 1
  end
  return after, all
end

-- Slots of decisions first: they are listed by themselves.
local slots = redis.call("ZRANGE", key.slots(base), 0, MOST_KEYS - 1)
if #slots > 0 then
  local hashes = {}
  for place, slot in ipairs(slots) do
    hashes[place] = key.decisions(base, slot)
  end
  redis.call("UNLINK", unpack(hashes))
  redis.call("ZREM", key.slots(base), unpack(slots))
  return { "more", first }
end

local after, all
if state[3] == "adaptive" then
  after, all = doom_curves()
else
  after, all = doom_balls()
end
local names = {}
for name in pairs(doomed) do
  names[#names + 1] = name
end
if #names > 0 then
  redis.call("UNLINK", unpack(names))
end
if after < all then
  return { "more", after }
end
redis.call("UNLINK", key.balls(base), key.path(base), key.claims(base), key.waiting(base))
redis.call("UNLINK", key.catalogue(base), key.states(base), key.asked(base, 0), key.log(base))
redis.call("UNLINK", key.contexts(base), key.ledger(base), key.deleted(base))
return { "swept" }
