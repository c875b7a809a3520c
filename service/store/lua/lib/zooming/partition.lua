-- include: tenant ranking phase ball arm_set claim cells flagged catalogue
-- What becomes of a ball of the paper's presets when one of its arms comes or goes.
local partition = {}

local function leave(t, b)
  if b.phase == phase.FLAGGED then
    flagged.leave(t.key, t.base, b, t.buckets)
    cells.drop_samples(t.base, b, t.buckets)
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
function partition.settle(t, b, arm, now)
  local function is_kept(one)
    return catalogue.state(t, one) ~= catalogue.RETIRED
  end
  local function is_live(one)
    return catalogue.is_live(t, one)
  end
  if not arm_set.first_from(t.base, b, b.cursor, is_kept) then
    leave(t, b)
  elseif b.phase == phase.FLAGGED then
    cells.settle(t, b, arm_set.position_of(t.base, b, arm), is_live(arm))
    ball.save(t.base, b)
    return flagged.due(t, b, now)
  elseif b.phase == phase.ASLEEP and is_live(arm) then
    ranking.wake(t.base, b, t.confidence)
  elseif b.phase == phase.ACTIVE and not arm_set.first_from(t.base, b, b.cursor, is_live) then
    ranking.sleep(t.base, b)
  end
  return false
end
