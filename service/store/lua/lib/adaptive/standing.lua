-- include: interval catalogue
-- Where the balls of a curve stand among those of other arms.
--
-- The sorted set `active` of an interval has the arms with a ball there at minus the ball's UCB,
-- `means` those whose ball has had a reward at minus the ball's mean then. Members are arms,
-- big-endian, so that equal scores are ordered by arm.
local standing = {}

local function member(arm)
  return struct.pack(">I4", arm)
end

-- Returns 1 if this is new, 0 if it was so before.
local function place_in(sorted_set, value, arm)
  return redis.call("ZADD", sorted_set, "CH", string.format("%.17g", -value), member(arm))
end

-- Ranks a ball of a live arm by its UCB.
function standing.rank(t, c, place)
  local depth, index = c.depths[place], c.indexes[place]
  place_in(key.active(t.base, depth, index), c.ucbs[place], c.arm)
  interval.refresh(t.base, depth, index)
end

-- Ranks a ball by its mean.
function standing.rank_mean(t, c, place)
  local depth, index = c.depths[place], c.indexes[place]
  if place_in(key.means(t.base, depth, index), c.means[place], c.arm) > 0 then
    interval.refresh(t.base, depth, index)
  end
end

-- Ranks a ball by its UCB again, or no longer, as its arm is live or not.
function standing.settle(t, c, place)
  if catalogue.is_live(t, c.arm) then
    return standing.rank(t, c, place)
  end
  local depth, index = c.depths[place], c.indexes[place]
  redis.call("ZREM", key.active(t.base, depth, index), member(c.arm))
  interval.refresh(t.base, depth, index)
end

-- Takes a ball that is split out of both rankings.
function standing.leave(t, c, place)
  local depth, index = c.depths[place], c.indexes[place]
  redis.call("ZREM", key.active(t.base, depth, index), member(c.arm))
  redis.call("ZREM", key.means(t.base, depth, index), member(c.arm))
  interval.refresh(t.base, depth, index)
end

-- The arm's balls whose bounds have moved are ranked; the ones that lead, or led, in their
-- intervals are noted there.
function standing.rank_moved(t, c, moved)
  local path, fields, news = key.path(t.base), {}, {}
  for number, place in ipairs(moved) do
    local depth, index = c.depths[place], c.indexes[place]
    fields[number] = interval.field("a", depth, index)
    place_in(key.active(t.base, depth, index), c.ucbs[place], c.arm)
  end
  local leaders = redis.call("HMGET", path, unpack(fields))
  for number, place in ipairs(moved) do
    local outdated, mean = interval.outdated(leaders[number], -c.ucbs[place], c.arm)
    if outdated then
      local packed = interval.packed(t.base, c.depths[place], c.indexes[place], mean)
      news[#news + 1] = fields[number]
      news[#news + 1] = packed
    end
  end
  if #news > 0 then
    redis.call("HSET", path, unpack(news))
  end
end
