-- include: tenant interval ranking phase ball claim flagged catalogue search
-- The paper's presets: what is played, and what becomes of a reward.
local zooming = { CLOSED_AT_ONCE = 16 }

-- What would be played at x of the arms allowed: a decision, not made yet; nil if there is none.
-- Nothing is changed, but that balls without a live arm may be put to sleep.
function zooming.choose(t, x, allowed, now)
  local found = interval.best_at(t.base, x, t.depth)
  local best_mean = found.best_mean
  local b
  if allowed.every then
    local id = interval.flagged_at(t.base, x, t.depth) or found.best
    b = id and ball.load(t.base, id)
  else
    b, found = search.best(t, x, allowed)
  end
  if not b then
    return nil
  end
  local d = { ball = b.id, phase = b.phase, x = x, best_mean = best_mean, record = b }
  d.ucb, d.runner, d.runner_ucb, d.bound = 0 / 0, 0, 0 / 0, 1
  if b.phase == phase.FLAGGED then
    d.due = flagged.due(t, b, now)
    d.position, d.arm, d.asked = flagged.pick(t, b, allowed)
  else
    d.position, d.arm = ball.first_allowed(t.base, b, b.cursor, allowed)
    d.ucb = ranking.ucb(b, t.confidence)
    d.bound = math.min(d.ucb, 1)
    if found.second then
      d.runner, d.runner_ucb = found.second, ranking.ucb_of(found.second_score)
    end
  end
  return d
end

-- Plays what was chosen.
function zooming.play(t, d, now)
  local b = d.record
  if b.phase == phase.FLAGGED then
    -- As it is met: when this play sets the last arm aside, its reward may still complete it.
    d.due = flagged.due(t, b, now)
    flagged.issue(t, b, d)
  else
    b.cursor = (d.position + 1) % b.arms
    if b.n == 0 then
      if b.selects == 0 then
        ranking.take_fresh(t.base, b)
      end
      b.selects = b.selects + 1
      ranking.place(t.base, b, t.confidence)
    end
  end
  ball.save(t.base, b)
end

-- Where a decision's reward goes now; nil if its arm has been retired.
function zooming.locate(t, d)
  local b, position = ball.descendant(t.base, ball.load(t.base, d.ball), d.position, d.x)
  return b and { ball = b, position = position, id = b.id, phase = b.phase }
end

function zooming.credit(t, spot, d, reward, now)
  local b = spot.ball
  if b.phase == phase.FLAGGED then
    flagged.count(t.base, b, t, spot.position, d.x, reward)
  else
    if b.phase == phase.ACTIVE and b.n == 0 and b.selects == 0 then
      ranking.take_fresh(t.base, b)
    end
    b.n = b.n + 1
    b.total = b.total + reward
    if b.n >= b.flag_at then
      ranking.leave(t.base, b)
      tenant.count(t.key, "active", -1)
      tenant.count(t.key, "clusters_" .. b.depth, -1)
      flagged.enter(t, b, now)
    else
      ranking.place(t.base, b, t.confidence)
    end
  end
  ball.save(t.base, b)
  spot.phase = b.phase
end

-- The reward will never come; nothing was expected of it.
function zooming.abandon() end

-- Whether the ball is full and nobody is at work on its split.
function zooming.due(t, spot, now)
  return flagged.due(t, spot.ball, now)
end

-- -- the catalogue

-- A ball of its own for a new arm; its record comes from children.py.
function zooming.add_arm(t, id, arm, record)
  redis.call("SET", key.arms(t.base, id), struct.pack("<I4", arm))
  redis.call("HSET", key.balls(t.base), id, record)
  ranking.add_range(t.base, 0, 0, id, id)
  interval.refresh(t.base, 0, 0)
  tenant.count(t.key, "active", 1)
  tenant.count(t.key, "clusters_0", 1)
end

-- Its balls are settled one by one, after this.
function zooming.arm_changed() end

local function leave_partition(t, b)
  if b.phase == phase.FLAGGED then
    flagged.leave(t.key, t.base, b, t.buckets)
    flagged.drop_samples(t.base, b, t.buckets)
  else
    ranking.drop(t.base, b)
    tenant.count(t.key, "active", -1)
    tenant.count(t.key, "clusters_" .. b.depth, -1)
  end
  if b.n > 0 then
    ranking.forget_mean(t.base, b)
  end
  -- Whoever reads the partition meanwhile may have seen the ball, and wants its arms.
  redis.call("PEXPIRE", key.arms(t.base, b.id), t.window_ms + t.retention_ms)
  claim.drop(t.base, b.id)
  b.phase, b.first, b.left, b.right = phase.SPLIT, 0, 0, 0
  ball.save(t.base, b)
end

-- Brings a ball up to date with what has become of one of its arms. Tells whether it is due for a
-- split then.
function zooming.settle(t, b, arm, now)
  local function is_kept(one)
    return catalogue.state(t, one) ~= catalogue.RETIRED
  end
  local function is_live(one)
    return catalogue.is_live(t, one)
  end
  if not ball.first_from(t.base, b, b.cursor, is_kept) then
    leave_partition(t, b)
  elseif b.phase == phase.FLAGGED then
    flagged.settle(t, b, ball.position_of(t.base, b, arm), is_live(arm))
    ball.save(t.base, b)
    return flagged.due(t, b, now)
  elseif b.phase == phase.ASLEEP and is_live(arm) then
    ranking.wake(t.base, b, t.confidence)
  elseif b.phase == phase.ACTIVE and not ball.first_from(t.base, b, b.cursor, is_live) then
    ranking.sleep(t.base, b)
  end
  return false
end
