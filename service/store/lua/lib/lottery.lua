-- include: catalogue rule
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
function lottery.choose(t, x, allowed, draw, place, now)
  local best = rule.choose(t, x, allowed, now)
  if not best then
    return nil
  end
  local d, way = best, string.sub(draw.ways, place, place)
  if way ~= "b" then
    local arm = next_drawn(draw, allowed)
    if arm ~= best.arm then
      d = rule.choose(t, x, catalogue.only(t, arm), now)
      d.bound, d.best_mean = best.bound, best.best_mean
      allowed.looked_up = nil -- the records of balls, of which one is about to change
    end
    d.explored, d.holdout = way == "u", way == "h"
  end
  local left = draw.of - place + 1
  local by_rule = draw.floor / left + (d.arm == best.arm and 1 - draw.floor or 0)
  d.propensity = draw.held / left + (1 - draw.held) * by_rule
  draw.held = draw.held / left / d.propensity
  return d
end
