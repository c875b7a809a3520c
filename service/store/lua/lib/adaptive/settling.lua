-- include: catalogue curve curve_record model standing census untried
-- What becomes of curves when arms come and go, under the preset `adaptive`.
local settling = {}

-- A ball of its own for a new arm.
function settling.add_arm(t, id, arm)
  local m = model.load(t)
  local c = untried.new_curve(t, m, arm, id)
  standing.rank(c, 1)
  standing.commit(t, c)
  curve_record.save(t.base, c)
  model.save(t, m)
end

local function drop_curve(t, m, c)
  local balls = {}
  for place = 1, c.balls do
    local depth = curve.get(c, place, curve.DEPTH)
    balls[depth] = (balls[depth] or 0) - 1
    standing.leave(c, place)
  end
  standing.commit(t, c)
  census.count(t, balls, {})
  redis.call("UNLINK", key.curve(t.base, c.arm))
  m.tried = m.tried - 1
  m.bend_squares, m.bends_known = m.bend_squares - c.bend_square, m.bends_known - c.bend_known
end

-- Brings the rankings up to date with what has become of an arm.
function settling.arm_changed(t, arm)
  local m, c = model.load(t), curve_record.load(t.base, arm)
  local state = catalogue.state(t, arm)
  if not c then
    untried.ask(t, m, arm, state == catalogue.LIVE and 1 or 0)
  elseif state == catalogue.RETIRED then
    drop_curve(t, m, c)
  else
    for place = 1, c.balls do
      standing.settle(t, c, place)
    end
    standing.commit(t, c)
  end
  untried.settle(t, m)
  model.save(t, m)
end
