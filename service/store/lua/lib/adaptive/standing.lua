-- include: interval catalogue curve
-- Where the balls of a curve stand among those of other arms.
--
-- The sorted set `active` of an interval has the arms with a ball there at minus the ball's UCB,
-- `means` those whose ball has had a reward at minus the mean that it had at the first of them, or
-- at the last when its curve was scored. Members are arms, big-endian, so that equal scores are
-- ordered by arm.
local standing = {}

local function member(arm)
  return struct.pack(">I4", arm)
end

-- Returns 1 if this is new, 0 if it was so before. With "NX" a member that is there stays.
local function place_in(sorted_set, value, arm, how)
  return redis.call("ZADD", sorted_set, how or "CH", string.format("%.17g", -value), member(arm))
end

-- Ranks a ball of a live arm by its UCB.
function standing.rank(t, c, place)
  local depth, index = curve.interval(c, place)
  place_in(key.active(t.base, depth, index), curve.get(c, place, curve.UCB), c.arm)
  interval.refresh(t.base, depth, index)
end

-- Ranks a ball by its mean, as it is now that its curve was scored, or where it had none.
function standing.rank_mean(t, c, place, was_scored)
  local depth, index = curve.interval(c, place)
  local means, mean = key.means(t.base, depth, index), curve.get(c, place, curve.MEAN)
  if place_in(means, mean, c.arm, not was_scored and "NX") > 0 then
    interval.refresh(t.base, depth, index)
  end
end

-- Ranks a ball by its UCB again, or no longer, as its arm is live or not.
function standing.settle(t, c, place)
  if catalogue.is_live(t, c.arm) then
    return standing.rank(t, c, place)
  end
  local depth, index = curve.interval(c, place)
  redis.call("ZREM", key.active(t.base, depth, index), member(c.arm))
  interval.refresh(t.base, depth, index)
end

-- Takes a ball that is split out of both rankings.
function standing.leave(t, c, place)
  local depth, index = curve.interval(c, place)
  redis.call("ZREM", key.active(t.base, depth, index), member(c.arm))
  redis.call("ZREM", key.means(t.base, depth, index), member(c.arm))
  interval.refresh(t.base, depth, index)
end

-- What the hash `path` is to have for the interval of a ball whose bound has moved; nil if it is
-- what it has, `packed`.
local function leader_after(t, c, place, packed)
  local score, arm = -curve.get(c, place, curve.UCB), c.arm
  if not packed then
    return interval.pack(score, arm, 0 / 0)
  end
  local best_score, best, mean = interval.unpack(packed)
  if best == arm and score > best_score then -- another may lead now
    local depth, index = curve.interval(c, place)
    return (interval.packed(t.base, depth, index, mean))
  elseif best == arm or score < best_score or (score == best_score and arm < best) then
    return interval.pack(score, arm, mean)
  end
end

-- The arm's balls whose bounds have moved are ranked; the ones that lead, or led, in their
-- intervals are noted there.
function standing.rank_moved(t, c, moved)
  local path, fields, news = key.path(t.base), {}, {}
  for number, place in ipairs(moved) do
    local depth, index = curve.interval(c, place)
    fields[number] = interval.field("a", depth, index)
    place_in(key.active(t.base, depth, index), curve.get(c, place, curve.UCB), c.arm)
  end
  local leaders = redis.call("HMGET", path, unpack(fields))
  for number, place in ipairs(moved) do
    local packed = leader_after(t, c, place, leaders[number])
    if packed then
      news[#news + 1] = fields[number]
      news[#news + 1] = packed
    end
  end
  if #news > 0 then
    redis.call("HSET", path, unpack(news))
  end
end
