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
-- The sorted set `means` has all rewarded balls, active or flagged, at minus their mean.
-- The hash `path` repeats the best of both, so that a select reads its whole path in one call.
local interval = { FRESH = -2 ^ 41, UNREWARDED = -2 ^ 40, OVERDUE = 2 ^ 40 }

-- As in learner.py: selected so often without a reward, a ball steps back.
local UNREWARDED_SELECTS = 16

function interval.index(x, depth)
  local size = 2 ^ depth
  return math.min(math.floor(x * size), size - 1)
end

-- Field of the hash `path`; the kind is "a" (active), "f" (flagged) or "m" (means).
function interval.field(kind, depth, index)
  return string.format("%s:%d:%d", kind, depth, index)
end

-- What a ball may be worth at the most; infinite before its first reward.
function interval.ucb(b, confidence)
  return b.n > 0 and b.total / b.n + b.bias + math.sqrt(confidence / b.n) or math.huge
end

local function score_of(b, confidence)
  if b.n > 0 then
    return -interval.ucb(b, confidence)
  elseif b.selects < UNREWARDED_SELECTS then
    return interval.UNREWARDED + b.selects
  end
  return interval.OVERDUE + b.selects
end

local function first_of(ranking)
  local top = redis.call("ZRANGE", ranking, 0, 0, "WITHSCORES")
  return top[1], tonumber(top[2])
end

-- Brings `path` up to date with the best ball of the interval and, if told so, the best mean.
function interval.refresh(base, depth, index, means_too)
  local path, known = key.path(base), {}
  local function note(kind, packed)
    local field = interval.field(kind, depth, index)
    if packed then
      known[#known + 1] = field
      known[#known + 1] = packed
    else
      redis.call("HDEL", path, field)
    end
  end
  local best, score = first_of(key.active(base, depth, index))
  note("a", best and struct.pack("<dI4", score, (struct.unpack(">I4", best))))
  if means_too then
    local _, minus_mean = first_of(key.means(base, depth, index))
    note("m", minus_mean and struct.pack("<d", -minus_mean))
  end
  if #known > 0 then
    redis.call("HSET", path, unpack(known))
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

local function member(b)
  return struct.pack(">I4", b.id)
end

local function rank_mean(base, b)
  local score = string.format("%.17g", -b.total / b.n)
  redis.call("ZADD", key.means(base, b.depth, b.index), score, member(b))
end

-- Ranks an active ball anew.
function interval.place(base, b, confidence)
  local score = string.format("%.17g", score_of(b, confidence))
  redis.call("ZADD", key.active(base, b.depth, b.index), score, member(b))
  if b.n > 0 then
    rank_mean(base, b)
  end
  interval.refresh(base, b.depth, b.index, b.n > 0)
end

-- Takes a ball that is to be flagged out of the ranking; its mean stays known.
function interval.leave(base, b)
  redis.call("ZREM", key.active(base, b.depth, b.index), member(b))
  rank_mean(base, b)
  interval.refresh(base, b.depth, b.index, true)
end

-- Forgets the mean of a ball that is split.
function interval.forget_mean(base, b)
  redis.call("ZREM", key.means(base, b.depth, b.index), member(b))
  interval.refresh(base, b.depth, b.index, true)
end

-- The ball to select at x (the widest flagged one, else the best active one), and the best mean of
-- a ball there, or nil.
function interval.choose(base, x, deepest)
  local fields = {}
  for depth = 0, deepest do
    local index = interval.index(x, depth)
    fields[#fields + 1] = interval.field("f", depth, index)
    fields[#fields + 1] = interval.field("a", depth, index)
    fields[#fields + 1] = interval.field("m", depth, index)
  end
  local found = redis.call("HMGET", key.path(base), unpack(fields))
  local flagged_first, best_score, best, best_mean
  for place = 1, #fields, 3 do
    flagged_first = flagged_first or found[place]
    if found[place + 1] then
      local score, id = struct.unpack("<dI4", found[place + 1])
      if not best or score < best_score or (score == best_score and id < best) then
        best_score, best = score, id
      end
    end
    if found[place + 2] then
      local mean = struct.unpack("<d", found[place + 2])
      best_mean = math.max(best_mean or mean, mean)
    end
  end
  return tonumber(flagged_first or best), best_mean
end
