-- Context intervals, and the hash `path`: what is best in each of them, so that a select reads its
-- whole way from the root in one call. ranking.lua and flagged.lua keep it up to date.
local interval = {}

function interval.index(x, depth)
  local size = 2 ^ depth
  return math.min(math.floor(x * size), size - 1)
end

-- Field of the hash `path`; the kind is "a" (active), "f" (flagged) or "m" (means).
function interval.field(kind, depth, index)
  return string.format("%s:%d:%d", kind, depth, index)
end

-- The first member of a sorted set and its score, or nil.
function interval.first_of(sorted_set)
  local top = redis.call("ZRANGE", sorted_set, 0, 0, "WITHSCORES")
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
  local best, score = interval.first_of(key.active(base, depth, index))
  note("a", best and struct.pack("<dI4", score, (struct.unpack(">I4", best))))
  if means_too then
    local _, minus_mean = interval.first_of(key.means(base, depth, index))
    note("m", minus_mean and struct.pack("<d", -minus_mean))
  end
  if #known > 0 then
    redis.call("HSET", path, unpack(known))
  end
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
