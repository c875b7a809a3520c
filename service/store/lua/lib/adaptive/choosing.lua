-- include: tenant interval phase curve curve_record model bound standing shortlist untried
-- What the preset `adaptive` plays: the same numbers in the same order as algorithm/adaptive.py,
-- where it is explained.
local choosing = {}

local OPTIMISM, LOOKS, LEAST_MISSED = 8.0, 48.0, 0.05

-- Whether the next arm may bring more than it costs to get to know it. The best of those that were
-- tried has this bound, and its rewards this variance.
local function take_new_arm(m, best_ucb, variance)
  local beyond = m.total > m.rewards
  local gap = beyond and 1 or math.max(1 - best_ucb, 0)
  local reach = math.min(gap / m.lipschitz, 1)
  local gain = OPTIMISM * gap * (m.horizon - m.rewards) * reach / (m.tried + 1)
  local typical = curve.PRIOR_MEAN
  if m.arms_rewarded > 0 then
    typical = m.first_rewards / m.arms_rewarded
  end
  local missed = math.max(best_ucb - typical, LEAST_MISSED)
  local apart = math.max(missed, gap)
  return gain > missed * (1 + LOOKS * variance / (apart * apart))
end

-- The best of the arms allowed at x, and the second. Only a play changes a rank, and what is played
-- is taken, so all are ranked once.
local function best_of(t, x, allowed)
  allowed.ranked = allowed.ranked or shortlist.at(t, x, allowed)
  local found = interval.nothing()
  for _, one in ipairs(allowed.ranked) do
    if not allowed.taken[one.arm] then
      interval.consider(found, one.score, one.arm)
      if found.second then
        return found
      end
    end
  end
  return found
end

-- A play in flight makes its ball, the only one in hand, less uncertain, though no better or worse.
-- Tells whether that moves its bound.
local function let_fly(t, m, c, x)
  curve.add(c, 1, x, curve.FLYING, 1)
  local ucb, before = bound.ucb_at(t, m, c, 1), curve.get(c, 1, curve.UCB)
  local moves = ucb < before and bound.moves(curve.get(c, 1, curve.MEAN), before, ucb)
  if moves then
    c.values[curve.UCB] = ucb
  end
  return moves
end

-- What would be played at x of the arms allowed: a decision, not made yet; nil if there is none.
function choosing.choose(t, x, allowed)
  local m = model.load(t)
  local found = interval.best_at(t.base, x, t.depth)
  local d = { x = x, position = 0, best_mean = found.best_mean, model = m }
  if allowed.arms or allowed.taken_count > 0 then
    found = best_of(t, x, allowed)
  end
  local c = found.best and curve_record.load_at(t.base, found.best, x)
  local wanted = m.fresh > 0
    and (not c or take_new_arm(m, -found.score, model.reward_variance(m, c, 1)))
  local new = wanted and untried.next(t, allowed)
  if new then
    d.arm, d.ball, d.phase, d.bound = new, untried.ROOT, phase.FLAGGED, 1
    d.ucb, d.runner, d.runner_ucb = 0 / 0, 0, 0 / 0
  elseif c then
    d.arm, d.ball, d.phase, d.curve = found.best, curve.get(c, 1, curve.ID), phase.ACTIVE, c
    d.ucb, d.runner = -found.score, found.second or 0
    d.runner_ucb = found.second and -found.second_score or 0 / 0
    -- The UCB is that of the ball's centre (or, until it is scored, of the one it is a half of);
    -- away from it a mean may be higher. Of an arm that was never tried nothing is ruled out.
    d.bound = m.fresh > 0 and 1 or math.min(d.ucb + m.lipschitz * curve.width(c, 1) / 2, 1)
  else
    return nil
  end
  return d
end

-- Plays what was chosen.
function choosing.play(t, d)
  local m = d.model
  t.trials = t.trials + 1
  if d.curve then
    if let_fly(t, m, d.curve, d.x) then
      standing.rank(d.curve, 1)
      standing.commit(t, d.curve)
    end
    curve_record.save_ball(t.base, d.curve)
    return
  end
  untried.ask(t, m, d.arm, 0)
  local c = untried.new_curve(t, m, d.arm, tenant.count(t.key, "next_ball", 1) - 1)
  model.save(t, m)
  let_fly(t, m, c, d.x)
  standing.rank(c, 1)
  standing.commit(t, c)
  curve_record.save(t.base, c)
end
