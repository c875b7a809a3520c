-- include: tenant interval ranking ball flagged
-- The paper's presets: what is played, and what becomes of a reward.
local zooming = {}

-- What is played at x: arm, ball, phase, bound and best mean of the decision, and whether the ball
-- waits for its split.
function zooming.decide(t, x, now)
  local best, _, best_mean = interval.best_at(t.base, x, t.depth)
  local chosen = ball.load(t.base, interval.flagged_at(t.base, x, t.depth) or best)
  local d = { ball = chosen.id, phase = chosen.phase, bound = 1, best_mean = best_mean or 0 / 0 }
  -- As it is met: when this very select sets the last arm aside, its reward may still complete it.
  local due = flagged.due(t.base, chosen, now)
  if chosen.phase == ball.FLAGGED then
    d.position = flagged.pick(t.base, chosen, t)
  else
    d.position = ball.next_in_turn(chosen)
    d.bound = math.min(ranking.ucb(chosen, t.confidence), 1)
    if chosen.n == 0 then
      if chosen.selects == 0 then
        ranking.take_fresh(t.base, chosen)
      end
      chosen.selects = chosen.selects + 1
      ranking.place(t.base, chosen, t.confidence)
    end
  end
  ball.save(t.base, chosen)
  d.arm = ball.arm_at(t.base, chosen, d.position)
  return d, due
end

-- Where a decision's reward goes now; nil when the way there is forgotten.
function zooming.locate(t, d)
  local b, position = ball.descendant(t.base, ball.load(t.base, d.ball), d.position, d.x)
  return b and { ball = b, position = position, id = b.id, phase = b.phase }
end

function zooming.credit(t, spot, d, reward, now)
  local b = spot.ball
  if b.phase == ball.FLAGGED then
    flagged.count(t.base, b, t, spot.position, d.x, reward)
  else
    if b.n == 0 and b.selects == 0 then
      ranking.take_fresh(t.base, b)
    end
    b.n = b.n + 1
    b.total = b.total + reward
    if b.n >= b.flag_at then
      ranking.leave(t.base, b)
      tenant.count(t.key, "active", -1)
      tenant.count(t.key, "clusters_" .. b.depth, -1)
      flagged.enter(t.key, t.base, b, t.buckets, now)
    else
      ranking.place(t.base, b, t.confidence)
    end
  end
  ball.save(t.base, b)
  spot.phase = b.phase
end

-- Whether the ball is full and nobody is at work on its split.
function zooming.due(t, spot, now)
  return flagged.due(t.base, spot.ball, now)
end
