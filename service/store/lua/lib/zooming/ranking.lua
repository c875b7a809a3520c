-- include: path phase ball
-- The ranking of the balls of an interval.
--
-- The sorted set `active` has the best active ball first. A ball that has been selected or rewarded
-- is a member of four bytes, its id big-endian, so that equal scores are ordered by id. Children
-- that have been neither (fresh ones) stand as ranges of ids, eight bytes, first and last: a split
-- publishes any number of children in one step. Scores, in ascending order:
--   FRESH + first id        never selected, no reward: lowest id first
--   UNREWARDED + selects    no reward yet: least selected first
--   -UCB                    rewarded
--   OVERDUE + selects       selected too often without a reward
-- The sorted set `means` has all rewarded balls, active or flagged, at minus their mean.
local ranking = { FRESH = -2 ^ 41, UNREWARDED = -2 ^ 40, OVERDUE = 2 ^ 40 }

-- As in learner.py: selected so often without a reward, a ball steps back.
local UNREWARDED_SELECTS = 16

-- What a ball may be worth at the most; infinite before its first reward.
function ranking.ucb(b, confidence)
  return b.n > 0 and b.total / b.n + b.bias + math.sqrt(confidence / b.n) or math.huge
end

-- The UCB that a score stands for.
function ranking.ucb_of(score)
  return math.abs(score) < ranking.OVERDUE and -score or math.huge
end

-- The rank of an active ball, smallest first, as the sorted set has it.
function ranking.score(b, confidence)
  if b.n > 0 then
    return -ranking.ucb(b, confidence)
  elseif b.selects == 0 then
    return ranking.FRESH + b.id
  elseif b.selects < UNREWARDED_SELECTS then
    return ranking.UNREWARDED + b.selects
  end
  return ranking.OVERDUE + b.selects
end

function ranking.add_range(base, depth, index, first, last)
  redis.call(
    "ZADD",
    key.active(base, depth, index),
    string.format("%.17g", ranking.FRESH + first),
    struct.pack(">I4I4", first, last)
  )
end

-- Takes a fresh ball out of its range; it has no rank until it is placed.
function ranking.take_fresh(base, b)
  local balls = key.active(base, b.depth, b.index)
  local highest = string.format("%.17g", ranking.FRESH + b.id)
  local lowest = string.format("%.17g", ranking.FRESH)
  local range = redis.call("ZREVRANGEBYSCORE", balls, highest, lowest, "LIMIT", 0, 1)[1]
  local first, last = struct.unpack(">I4I4", range)
  redis.call("ZREM", balls, range)
  if first < b.id then
    ranking.add_range(base, b.depth, b.index, first, b.id - 1)
  end
  if b.id < last then
    ranking.add_range(base, b.depth, b.index, b.id + 1, last)
  end
end

local function member(b)
  return struct.pack(">I4", b.id)
end

local function rank_mean(base, b)
  local score = string.format("%.17g", -b.total / b.n)
  redis.call("ZADD", key.means(base, b.depth, b.index), score, member(b))
end

-- Ranks an active ball anew; one that is asleep by its mean alone.
function ranking.place(base, b, confidence)
  if b.phase == phase.ACTIVE then
    local score = string.format("%.17g", ranking.score(b, confidence))
    redis.call("ZADD", key.active(base, b.depth, b.index), score, member(b))
  end
  if b.n > 0 then
    rank_mean(base, b)
  end
  path.refresh(base, b.depth, b.index)
end

-- Takes a ball that is to be flagged out of the ranking; its mean stays known.
function ranking.leave(base, b)
  redis.call("ZREM", key.active(base, b.depth, b.index), member(b))
  rank_mean(base, b)
  path.refresh(base, b.depth, b.index)
end

-- Takes a ball out of the ranking of active balls, if it is there; its mean stays.
function ranking.drop(base, b)
  if b.phase == phase.ACTIVE and b.n == 0 and b.selects == 0 then
    ranking.take_fresh(base, b)
  else
    redis.call("ZREM", key.active(base, b.depth, b.index), member(b))
  end
  path.refresh(base, b.depth, b.index)
end

-- Nothing of the ball may be played for now.
function ranking.sleep(base, b)
  ranking.drop(base, b)
  b.phase = phase.ASLEEP
  ball.save(base, b)
end

function ranking.wake(base, b, confidence)
  b.phase = phase.ACTIVE
  if b.n == 0 and b.selects == 0 then
    ranking.add_range(base, b.depth, b.index, b.id, b.id)
    path.refresh(base, b.depth, b.index)
  else
    ranking.place(base, b, confidence)
  end
  ball.save(base, b)
end

-- Forgets the mean of a ball that is split.
function ranking.forget_mean(base, b)
  redis.call("ZREM", key.means(base, b.depth, b.index), member(b))
  path.refresh(base, b.depth, b.index)
end
