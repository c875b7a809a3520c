-- The hash `path`: what is best in each context interval, so that a select reads its whole way from
-- the root in one call. Both rules keep it up to date.
local path = {}

-- Field of the hash `path`; the kind is "a" (active balls, means) or "f" (flagged balls).
function path.field(kind, depth, index)
  return string.format("%s:%d:%d", kind, depth, index)
end

-- The score of the first member of a ranking, and its id; infinite, and 0, if it has none.
function path.first_of(sorted_set)
  local top = redis.call("ZRANGE", sorted_set, 0, 0, "WITHSCORES")
  if not top[1] then
    return math.huge, 0
  end
  return tonumber(top[2]), (struct.unpack(">I4", top[1]))
end

-- What `path` has for an interval: the score and the id of its best ball, and the same by means;
-- false if there is neither.
function path.pack(score, best, mean_score, best_by_mean)
  return (score < math.huge or mean_score < math.huge)
    and struct.pack("<dI4dI4", score, best, mean_score, best_by_mean)
end

function path.unpack(packed)
  if not packed then
    return math.huge, 0, math.huge, 0
  end
  return struct.unpack("<dI4dI4", packed)
end

-- Gives fields of `path` what they are to have; false if that is nothing.
function path.note(base, news)
  local noted, empty = {}, {}
  for field, packed in pairs(news) do
    if packed then
      noted[#noted + 1] = field
      noted[#noted + 1] = packed
    else
      empty[#empty + 1] = field
    end
  end
  if #noted > 0 then
    redis.call("HSET", key.path(base), unpack(noted))
  end
  if #empty > 0 then
    redis.call("HDEL", key.path(base), unpack(empty))
  end
end

-- Brings `path` up to date with what is ranked in the interval.
function path.refresh(base, depth, index)
  local score, best = path.first_of(key.active(base, depth, index))
  local mean_score, best_by_mean = path.first_of(key.means(base, depth, index))
  local packed = path.pack(score, best, mean_score, best_by_mean)
  path.note(base, { [path.field("a", depth, index)] = packed })
end
