-- include: tenant ranking phase ball cells flagged
-- What becomes of a reward under the paper's presets, as in algorithm/learner.py.
local learning = { CLOSED_AT_ONCE = 16 }

-- Where a decision's reward goes now; nil if its arm has been retired.
function learning.locate(t, d)
  local b, position = ball.descendant(t.base, ball.load(t.base, d.ball), d.position, d.x)
  return b and { ball = b, position = position, id = b.id, phase = b.phase }
end

function learning.credit(t, spot, d, reward, now)
  local b = spot.ball
  if b.phase == phase.FLAGGED then
    cells.count(t.base, b, t, spot.position, d.x, reward)
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
function learning.abandon() end

-- Whether the ball is full and nobody is at work on its split.
function learning.due(t, spot, now)
  return flagged.due(t, spot.ball, now)
end
