-- include: path catalogue curve
-- Where the balls of a curve stand among those of other arms.
--
-- The sorted set `active` of an interval has the arms with a ball there at minus the ball's UCB,
-- `means` those whose ball has had a reward at minus the mean that it had at the first of them, or
-- at the last when its curve was scored. Members are arms, big-endian, so that equal scores are
-- ordered by arm.
--
-- What changes of that is noted with the curve, to be committed with few calls.
local standing = {}

-- Notes that the ball at this place is to have these scores, by its bound and by its mean: nil if
-- that one stays as it is, false if the ball is to be taken out of that ranking.
local function note(c, place, bound, mean)
  local depth, index = curve.interval(c, place)
  c.changes[#c.changes + 1] = { depth = depth, index = index, bound = bound, mean = mean }
end

-- Ranks a ball of a live arm by its UCB.
function standing.rank(c, place)
  note(c, place, -curve.get(c, place, curve.UCB))
end

-- Ranks a ball by its mean, as it is now that its curve was scored, or where it had none.
function standing.rank_mean(c, place, was_scored)
  local score, how = -curve.get(c, place, curve.MEAN), was_scored and "CH" or "NX"
  local depth, index = curve.interval(c, place)
  for _, change in ipairs(c.changes) do
    if change.depth == depth and change.index == index then
      change.mean, change.how = score, how
      return
    end
  end
  note(c, place, nil, score)
  c.changes[#c.changes].how = how
end

-- Ranks a ball by its UCB again, or no longer, as its arm is live or not.
function standing.settle(t, c, place)
  if catalogue.is_live(t, c.arm) then
    standing.rank(c, place)
  else
    note(c, place, false)
  end
end

-- Takes a ball out of both rankings, unless this reward has made it: then it is in none yet.
function standing.leave(c, place)
  if not c.unranked[curve.get(c, place, curve.ID)] then
    note(c, place, false, false)
  end
end

-- Gives the arm this score in a ranking, or takes it out. Returns the score if that is new.
local function enter(sorted_set, arm, score, how)
  local member = struct.pack(">I4", arm)
  local changed
  if score then
    changed = redis.call("ZADD", sorted_set, how, string.format("%.17g", score), member)
  else
    changed = redis.call("ZREM", sorted_set, member)
  end
  if changed > 0 then
    return score
  end
end

-- The best score of a ranking and whose it is, by what they were before the arm had this one.
local function first_after(sorted_set, arm, score, best_score, best)
  if best == arm and (not score or score > best_score) then -- another may be first now
    return path.first_of(sorted_set)
  elseif score and (best == arm or score < best_score or (score == best_score and arm < best)) then
    return score, arm
  end
  return best_score, best
end

-- What `path` is to have after a change, by what it had.
local function packed_after(t, arm, change, packed)
  local score, best, mean_score, best_by_mean = path.unpack(packed)
  local bound, mean, depth, index = change.bound, change.mean, change.depth, change.index
  if bound ~= nil then
    score, best = first_after(key.active(t.base, depth, index), arm, bound, score, best)
  end
  if mean ~= nil then
    local means = key.means(t.base, depth, index)
    mean_score, best_by_mean = first_after(means, arm, mean, mean_score, best_by_mean)
  end
  return path.pack(score, best, mean_score, best_by_mean)
end

-- Brings the rankings up to date with what was noted, and `path` with them.
function standing.commit(t, c)
  local changes, fields = {}, {}
  for _, change in ipairs(c.changes) do
    local depth, index = change.depth, change.index
    if change.bound ~= nil then
      change.bound = enter(key.active(t.base, depth, index), c.arm, change.bound, "CH")
    end
    if change.mean ~= nil then
      change.mean = enter(key.means(t.base, depth, index), c.arm, change.mean, change.how)
    end
    if change.bound ~= nil or change.mean ~= nil then
      changes[#changes + 1] = change
      fields[#changes] = path.field("a", depth, index)
    end
  end
  c.changes = {}
  if #changes == 0 then
    return
  end
  local packed, news = redis.call("HMGET", key.path(t.base), unpack(fields)), {}
  for place, change in ipairs(changes) do
    local now = packed_after(t, c.arm, change, packed[place])
    if now ~= packed[place] then
      news[fields[place]] = now
    end
  end
  path.note(t.base, news)
end
