-- Context intervals and the ranking of the active balls in each.
--
-- An interval's sorted set `active` has the best ball first. A ball that has been selected or
-- rewarded is a member of four bytes, its id big-endian, so that equal scores are ordered by id.
-- Children that have been neither (fresh ones) stand as ranges of ids, eight bytes, first and last:
-- a split publishes any number of children in one step. Scores, in ascending order:
--   FRESH + first id        never selected, no reward: lowest id first
--   UNREWARDED + selects    no reward yet: least selected first
--   -UCB                    rewarded
--   OVERDUE + selects       selected too often without a reward
-- The hash `path` repeats each interval's best, so that a select reads its whole path in one call.
local interval = { FRESH = -2 ^ 41, UNREWARDED = -2 ^ 40, OVERDUE = 2 ^ 40 }

-- As in learner.py: selected so often without a reward, a ball steps back.
local UNREWARDED_SELECTS = 16

function interval.index(x, depth)
  local size = 2 ^ depth
  return math.min(math.floor(x * size), size - 1)
end

-- Field of the hash `path`; the kind is "a" (active) or "f" (flagged).
function interval.field(kind, depth, index)
  return string.format("%s:%d:%d", kind, depth, index)
end

local function score_of(b, confidence)
  if b.n > 0 then
    return -(b.total / b.n + b.bias + math.sqrt(confidence / b.n))
  elseif b.selects < UNREWARDED_SELECTS then
    return interval.UNREWARDED + b.selects
  end
  return interval.OVERDUE + b.selects
end

-- Brings `path` up to date with the best ball of the interval.
function interval.refresh(base, depth, index)
  local top = redis.call("ZRANGE", key.active(base, depth, index), 0, 0, "WITHSCORES")
  local field = interval.field("a", depth, index)
  if top[1] then
    local best = struct.unpack(">I4", top[1])
    redis.call("HSET", key.path(base), field, struct.pack("<dI4", tonumber(top[2]), best))
  else
    redis.call("HDEL", key.path(base), field)
  end
end

function interval.add_range(base, depth, index, first, last)
  redis.call(
    "ZADD",
    key.active(base, depth, index),
    string.format("%.17g", interval.FRESH + first),
    struct.pack(">I4I4", first, last)
  )
end

-- Takes a fresh ball out of its range; it has no rank until it is placed.
function interval.take_fresh(base, b)
  local ranking = key.active(base, b.depth, b.index)
  local highest = string.format("%.17g", interval.FRESH + b.id)
  local lowest = string.format("%.17g", interval.FRESH)
  local range = redis.call("ZREVRANGEBYSCORE", ranking, highest, lowest, "LIMIT", 0, 1)[1]
  local first, last = struct.unpack(">I4I4", range)
  redis.call("ZREM", ranking, range)
  if first < b.id then
    interval.add_range(base, b.depth, b.index, first, b.id - 1)
  end
  if b.id < last then
    interval.add_range(base, b.depth, b.index, b.id + 1, last)
  end
end

-- Ranks an active ball anew.
function interval.place(base, b, confidence)
  redis.call(
    "ZADD",
    key.active(base, b.depth, b.index),
    string.format("%.17g", score_of(b, confidence)),
    struct.pack(">I4", b.id)
  )
  interval.refresh(base, b.depth, b.index)
end

-- Takes an active ball out of the ranking.
function interval.leave(base, b)
  redis.call("ZREM", key.active(base, b.depth, b.index), struct.pack(">I4", b.id))
  interval.refresh(base, b.depth, b.index)
end

-- The ball to select at x: the widest flagged one, else the best active one.
function interval.choose(base, x, deepest)
  local fields = {}
  for depth = 0, deepest do
    local index = interval.index(x, depth)
    fields[#fields + 1] = interval.field("f", depth, index)
    fields[#fields + 1] = interval.field("a", depth, index)
  end
  local found = redis.call("HMGET", key.path(base), unpack(fields))
  local best_score, best
  for place = 1, #fields, 2 do
    if found[place] then
      return tonumber(found[place])
    end
    if found[place + 1] then
      local score, id = struct.unpack("<dI4", found[place + 1])
      if not best or score < best_score or (score == best_score and id < best) then
        best_score, best = score, id
      end
    end
  end
  return best
end
