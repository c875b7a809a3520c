-- include: bitmap ball arm_set cells
-- Which arm of a flagged ball is played.
local sampling = {}

local function next_asked(base, b, start)
  local asked = key.asked(base, b.id)
  local position = redis.call("BITPOS", asked, 1, start, -1, "BIT")
  if position < 0 then
    position = redis.call("BITPOS", asked, 1, 0, -1, "BIT")
  end
  return position, ball.arm_at(base, b, position)
end

local function first_asked(t, b, start, allowed)
  if b.asked == 0 then
    return nil
  end
  if not allowed.arms then -- those that are asked are live
    local position, arm = next_asked(t.base, b, start)
    if allowed.has(arm) then
      return position, arm
    end
  end
  local asked = redis.call("GET", key.asked(t.base, b.id))
  return arm_set.first_allowed(t.base, b, start, allowed, function(position)
    return bitmap.has(asked, position)
  end)
end

-- None of the arms asked is live: whoever paused or retired them did not come to settle the ball.
local function ask_nobody(t, b)
  redis.call("SET", key.asked(t.base, b.id), string.rep("\0", math.ceil(b.arms / 8)))
  b.asked = 0
  ball.save(t.base, b)
end

-- Position and arm to play of those allowed, and whether it is asked for a sample; if none of them
-- is, as in a full ball that waits for its split, they are played in turn.
function sampling.pick(t, b, allowed)
  -- Under `sequential` sampling it is always the lowest arm that is asked.
  local start = t.sampling == "round_robin" and b.cursor or 0
  local position, arm = first_asked(t, b, start, allowed)
  if position then
    return position, arm, true
  end
  if b.asked > 0 and not allowed.arms and allowed.taken_count == 0 then
    ask_nobody(t, b)
  end
  position, arm = arm_set.first_allowed(t.base, b, b.cursor, allowed)
  return position, arm, false
end

-- Notes that the arm picked is played. The caller saves the record.
function sampling.issue(t, b, picked)
  if not picked.asked or t.sampling == "round_robin" then
    b.cursor = (picked.position + 1) % b.arms
  end
  if picked.asked then
    local issued = cells.bump(t.base, b, picked.position * (t.buckets + 2))
    if issued >= t.patience * b.k * t.buckets then
      cells.ask_no_more(t.base, b, picked.position)
    end
  end
end
