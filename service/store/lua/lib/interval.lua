-- Context intervals, and the hash `path`: what is best in each of them, so that a select reads its
-- whole way from the root in one call. Both rules keep it up to date.
local interval = {}

function interval.index(x, depth)
  local size = 2 ^ depth
  return math.min(math.floor(x * size), size - 1)
end

-- Field of the hash `path`; the kind is "a" (active balls, means) or "f" (flagged balls).
function interval.field(kind, depth, index)
  return string.format("%s:%d:%d", kind, depth, index)
end

-- The first member of a sorted set and its score, or nil.
function interval.first_of(sorted_set)
  local top = redis.call("ZRANGE", sorted_set, 0, 0, "WITHSCORES")
  return top[1], tonumber(top[2])
end

-- What `path` has for an interval: the score and the name of its best ball, and its best mean.
function interval.pack(score, id, mean)
  return struct.pack("<dI4d", score, id, mean)
end

function interval.unpack(packed)
  return struct.unpack("<dI4d", packed)
end

-- The same of what is ranked there now, if anything is; the mean is NaN if none is known.
function interval.packed(base, depth, index, mean)
  local best, score = interval.first_of(key.active(base, depth, index))
  local id = best and struct.unpack(">I4", best) or 0
  return interval.pack(score or math.huge, id, mean), best
end

-- The best mean of a ball in the interval, NaN if none is known.
function interval.best_mean(base, depth, index)
  local _, minus_mean = interval.first_of(key.means(base, depth, index))
  return minus_mean and -minus_mean or 0 / 0
end

-- Brings `path` up to date with the best ball of the interval and its best mean, if it has one.
function interval.refresh(base, depth, index)
  local path, field = key.path(base), interval.field("a", depth, index)
  local mean = interval.best_mean(base, depth, index)
  local packed, best = interval.packed(base, depth, index, mean)
  if best or mean == mean then
    redis.call("HSET", path, field, packed)
  else
    redis.call("HDEL", path, field)
  end
end

local function found_at(base, kind, x, deepest)
  local fields = {}
  for depth = 0, deepest do
    fields[depth + 1] = interval.field(kind, depth, interval.index(x, depth))
  end
  return redis.call("HMGET", key.path(base), unpack(fields))
end

-- The widest flagged ball at x, or nil.
function interval.flagged_at(base, x, deepest)
  for _, id in ipairs(found_at(base, "f", x, deepest)) do
    if id then
      return tonumber(id)
    end
  end
end

-- Notes a ball that is up for choice: the best so far, or the second.
function interval.consider(found, score, id)
  if score < found.score or (found.best and score == found.score and id < found.best) then
    found.second, found.second_score = found.best, found.score
    found.best, found.score = id, score
  elseif score < found.second_score then
    found.second, found.second_score = id, score
  end
end

-- Nothing is up for choice yet.
function interval.nothing()
  return { score = math.huge, second_score = math.huge }
end

-- The second ball of an interval; one of the same range if the first is one of many fresh ones.
local function runner_up(base, depth, index)
  local top = redis.call("ZRANGE", key.active(base, depth, index), 0, 1, "WITHSCORES")
  if top[1] and #top[1] == 8 then
    local first, last = struct.unpack(">I4I4", top[1])
    if first < last then
      return first + 1, tonumber(top[2])
    end
  end
  if top[3] then
    return struct.unpack(">I4", top[3]), tonumber(top[4])
  end
end

-- What is up for choice at x: the best active ball, its score, the second and its score, and the
-- best mean of a ball there; each nil if there is none.
function interval.best_at(base, x, deepest)
  local found, best_mean, deep = interval.nothing(), nil, 0
  for place, packed in ipairs(found_at(base, "a", x, deepest)) do
    if packed then
      local score, id, mean = interval.unpack(packed)
      if score < math.huge then
        interval.consider(found, score, id)
        deep = found.best == id and found.score == score and place - 1 or deep
      end
      if mean == mean then
        best_mean = math.max(best_mean or mean, mean)
      end
    end
  end
  if found.best then
    local second, score = runner_up(base, deep, interval.index(x, deep))
    if second and second ~= found.best then
      interval.consider(found, score, second)
    end
  end
  found.best_mean = best_mean or 0 / 0
  return found
end
