-- include: catalogue choosing
-- Which arm comes next, by the rule or by a draw, and how likely that was.
local lottery = {}

-- The first arm drawn that is not taken.
local function next_drawn(draw, allowed)
  local place = 1
  while allowed.taken[draw.arms[place]] do
    place = place + 1
  end
  return draw.arms[place]
end

-- What is chosen in this place of a ranking; nil if there is none left. `draw.held` is how likely
-- all of it is of the holdout, by the arms in the places before.
local function choose(t, x, allowed, draw, place, now)
  local best = choosing.choose(t, x, allowed, now)
  if not best then
    return nil
  end
  local d, way = best, string.sub(draw.ways, place, place)
  if way ~= "b" then
    local arm = next_drawn(draw, allowed)
    if arm ~= best.arm then
      d = choosing.choose(t, x, catalogue.only(t, arm), now)
      d.bound, d.best_mean = best.bound, best.best_mean
    end
    d.explored, d.holdout = way == "u", way == "h"
  end
  local left = draw.of - place + 1
  local by_rule = draw.floor / left + (d.arm == best.arm and 1 - draw.floor or 0)
  d.propensity = draw.held / left + (1 - draw.held) * by_rule
  draw.held = draw.held / left / d.propensity
  return d
end

-- What is chosen in each place, best first. Nothing is played before all are chosen: else what is
-- best in a place would depend on whether those above it are of the holdout, which is not played,
-- and no propensity could be told.
function lottery.rank(t, x, allowed, draw, now)
  local chosen, records = {}, {}
  for place = 1, math.min(allowed.wanted, draw.of) do
    local d = choose(t, x, allowed, draw, place, now)
    if not d then
      break
    end
    -- When they are played, each shall find what the one before has left.
    records[d.ball] = records[d.ball] or d.record
    d.record, d.model = records[d.ball], place > 1 and chosen[1].model or d.model
    catalogue.take(allowed, d.arm)
    chosen[place] = d
  end
  return chosen
end
