-- include: tenant interval phase catalogue curve posterior model score refining
-- The preset `adaptive`: the same numbers in the same order as algorithm/adaptive.py, where it is
-- explained.
local adaptive = { CLOSED_AT_ONCE = 24 }

local OPTIMISM, LOOKS, LEAST_MISSED = 4.0, 48.0, 0.05
local RESCORED = 2
-- What a curve that is scored takes, in decisions that are closed without.
local SCORING = 8
local ROOT = 0

-- -- the choice

-- Whether the next arm may bring more than it costs to get to know it. The best of those that were
-- tried has this bound, and its rewards this variance.
local function take_new_arm(m, best_ucb, variance)
  local beyond = m.total > m.rewards
  local gap = beyond and 1 or math.max(1 - best_ucb, 0)
  local reach = math.min(gap / m.lipschitz, 1)
  local gain = OPTIMISM * gap * m.future * reach / (m.tried + 1)
  local typical = posterior.PRIOR_MEAN
  if m.arms_rewarded > 0 then
    typical = m.first_rewards / m.arms_rewarded
  end
  local missed = math.max(best_ucb - typical, LEAST_MISSED)
  local apart = math.max(missed, gap)
  return gain > missed * (1 + LOOKS * variance / (apart * apart))
end

-- Where the root has left its arms to curves, it is gone.
local function settle_root(t, m)
  if m.tried < t.arms then
    redis.call("HSET", t.key, "cells_owed", t.arms, "cells_filled", m.tried)
  else
    redis.call("HSET", t.key, "cells_owed", 0, "cells_filled", 0)
    redis.call("ZREM", key.waiting(t.base), ROOT)
  end
end

-- A curve for an arm that has none, not ranked yet.
local function new_curve(t, m, arm, id)
  m.tried = m.tried + 1
  tenant.count(t.key, "active", 1)
  tenant.count(t.key, "clusters_0", 1)
  settle_root(t, m)
  return curve.new(arm, id, posterior.PRIOR_MEAN, posterior.PRIOR_VARIANCE, 1, m.step)
end

-- An arm that is up for a first try, or no longer.
local function ask_root(t, m, arm, asked)
  if redis.call("SETBIT", key.asked(t.base, ROOT), arm, asked) ~= asked then
    m.fresh = m.fresh + (asked == 1 and 1 or -1)
  end
end

-- Those of the arms, in their order, that are live and not yet tried.
local function untried_of(t, arms)
  local bits, untried = redis.call("GET", key.asked(t.base, ROOT)), {}
  for _, arm in ipairs(arms) do
    local byte = string.byte(bits, math.floor(arm / 8) + 1) or 0
    if math.floor(byte / 2 ^ (7 - arm % 8)) % 2 == 1 then
      untried[#untried + 1] = arm
    end
  end
  return untried
end

-- The first arm of those allowed that is live and not yet tried; nil if there is none.
local function next_untried(t, allowed)
  if allowed.arms then
    allowed.untried = allowed.untried or untried_of(t, allowed.arms)
    for _, arm in ipairs(allowed.untried) do
      if not allowed.taken[arm] then
        return arm
      end
    end
    return nil
  end
  local asked = key.asked(t.base, ROOT)
  local arm = redis.call("BITPOS", asked, 1, 0, -1, "BIT")
  while arm >= 0 and allowed.taken[arm] do
    arm = redis.call("BITPOS", asked, 1, arm + 1, -1, "BIT")
  end
  return arm >= 0 and arm or nil
end

-- The best of the arms allowed at x, and the second. Only a play changes a rank, and what is played
-- is taken, so all are ranked once.
local function best_of(t, x, allowed)
  allowed.ranked = allowed.ranked or score.ranked(t, x, allowed)
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
  curve.add(c, 1, x, "flying", 1)
  local flying = c.flying_left[1] + c.flying_right[1]
  local noise = model.noise(m, c, 1, curve.width(c, 1))
  local ucb_of = score.ucb_by(t, m)
  local ucb = ucb_of(c.means[1], c.variances[1], flying, noise)
  local moves = ucb < c.ucbs[1] and score.moves(c, 1, ucb)
  if moves then
    c.ucbs[1], c.changed.ucbs = ucb, true
  end
  return moves
end

-- What would be played at x of the arms allowed: a decision, not made yet; nil if there is none.
function adaptive.choose(t, x, allowed)
  local m = model.load(t)
  local found = interval.best_at(t.base, x, t.depth)
  local d = { x = x, position = 0, best_mean = found.best_mean, model = m }
  if allowed.arms or allowed.taken_count > 0 then
    found = best_of(t, x, allowed)
  end
  local c = found.best and curve.load_at(t.base, found.best, x)
  local wanted = m.fresh > 0
    and (not c or take_new_arm(m, -found.score, model.reward_variance(m, c, 1)))
  local untried = wanted and next_untried(t, allowed)
  if untried then
    d.arm, d.ball, d.phase, d.bound = untried, ROOT, phase.FLAGGED, 1
    d.ucb, d.runner, d.runner_ucb = 0 / 0, 0, 0 / 0
  elseif c then
    d.arm, d.ball, d.phase, d.curve = found.best, c.ids[1], phase.ACTIVE, c
    d.ucb, d.runner = -found.score, found.second or 0
    d.runner_ucb = found.second and -found.second_score or 0 / 0
    -- The UCB is that of the ball's centre; away from it a mean may be higher. Of an arm that was
    -- never tried nothing is ruled out.
    d.bound = m.fresh > 0 and 1 or math.min(d.ucb + m.lipschitz * curve.width(c, 1) / 2, 1)
  else
    return nil
  end
  return d
end

-- Plays what was chosen.
function adaptive.play(t, d)
  local m = d.model
  t.trials = t.trials + 1
  if d.curve then
    if let_fly(t, m, d.curve, d.x) then
      score.rank(t, d.curve, 1)
    end
    curve.save_changed(t.base, d.curve)
    return
  end
  ask_root(t, m, d.arm, 0)
  local c = new_curve(t, m, d.arm, tenant.count(t.key, "next_ball", 1) - 1)
  model.save(t, m)
  let_fly(t, m, c, d.x)
  score.rank(t, c, 1)
  curve.save(t.base, c)
end

-- -- the reward

-- Where a decision's reward goes: a curve covers every context. `work` is what was done there.
function adaptive.locate(t, d)
  local c = curve.load_at(t.base, d.arm, d.x)
  return { curve = c, id = c.ids[1], phase = phase.ACTIVE, work = 1 }
end

function adaptive.credit(t, spot, d, reward)
  local m, c, place = model.load(t), spot.curve, 1
  c.rewards = c.rewards + 1
  model.count(m, reward, c.rewards == 1)
  if c.rewards > 1 and t.noise == "auto" then
    model.learn_noise(m, c, place, reward, 1 / (c.rewards - 1))
  end
  model.look_ahead(t, m)
  score.note(m, c, place, reward)
  if not curve.flies_in(c, 1) or refining.due(t, m, c, 1) or score.due(c) then
    c, place = curve.whole(c)
  end
  curve.land(c, place)
  place = refining.refine(t, m, c, place, d.x)
  curve.add(c, place, d.x, "counts", 1)
  curve.add(c, place, d.x, "totals", reward)
  if score.due(c) then
    score.curve(t, m, c)
    spot.work = spot.work + SCORING
    if t.lipschitz == "auto" then
      model.learn_slope(t, m, c, place)
    end
  else
    c.changed.head = true
    curve.save_changed(t.base, c)
  end
  score.rank_mean(t, c, place)
  spot.id = c.ids[place]
  for _ = 1, RESCORED do
    if m.cursor < t.arms_ever then
      local stale = curve.load(t.base, m.cursor)
      m.cursor = m.cursor + 1
      if stale and stale.rewards > 0 and stale.step < m.step then
        score.curve(t, m, stale)
        spot.work = spot.work + SCORING
      end
    end
  end
  model.save(t, m)
end

-- The reward will never come: the play is no longer in flight.
function adaptive.abandon(t, spot)
  local m = model.load(t)
  local c, place = curve.whole(spot.curve)
  curve.land(c, place)
  score.curve(t, m, c)
  model.save(t, m)
  spot.work = spot.work + SCORING
end

-- No split is left to others.
function adaptive.due()
  return false
end

-- -- the catalogue

-- A ball of its own for a new arm.
function adaptive.add_arm(t, id, arm)
  local m = model.load(t)
  local c = new_curve(t, m, arm, id)
  score.rank(t, c, 1)
  curve.save(t.base, c)
  model.save(t, m)
end

local function drop_curve(t, m, c)
  for place = 1, c.balls do
    score.leave(t, c, place)
    tenant.count(t.key, "clusters_" .. c.depths[place], -1)
  end
  tenant.count(t.key, "active", 0 - c.balls)
  redis.call("UNLINK", key.curve(t.base, c.arm))
  m.tried = m.tried - 1
end

-- Brings the rankings up to date with what has become of an arm.
function adaptive.arm_changed(t, arm)
  local m, c = model.load(t), curve.load(t.base, arm)
  local state = catalogue.state(t, arm)
  if not c then
    ask_root(t, m, arm, state == catalogue.LIVE and 1 or 0)
  elseif state == catalogue.RETIRED then
    drop_curve(t, m, c)
  else
    for place = 1, c.balls do
      score.settle(t, c, place)
    end
  end
  settle_root(t, m)
  model.save(t, m)
end
