-- What has become of each arm: two bits an arm in the string `states`, all 0 while every arm is
-- live. Numbers of arms never change; a new arm gets the next one.
local catalogue = { LIVE = 0, PAUSED = 1, RETIRED = 2 }

function catalogue.state(t, arm)
  if t.muted == 0 then
    return catalogue.LIVE
  end
  t.states = t.states or redis.call("GET", key.states(t.base)) or ""
  local byte = string.byte(t.states, math.floor(arm / 4) + 1) or 0
  return math.floor(byte / 4 ^ (3 - arm % 4)) % 4
end

function catalogue.is_live(t, arm)
  return catalogue.state(t, arm) == catalogue.LIVE
end

-- Changes the state of an arm, and the counts of arms and of those that are not live.
function catalogue.change(t, arm, state)
  local before = catalogue.state(t, arm)
  redis.call("BITFIELD", key.states(t.base), "SET", "u2", "#" .. arm, state)
  local muted = (state == catalogue.LIVE and 0 or 1) - (before == catalogue.LIVE and 0 or 1)
  t.muted = redis.call("HINCRBY", t.key, "muted", muted)
  if state == catalogue.RETIRED then
    t.arms = redis.call("HINCRBY", t.key, "arms", -1)
  end
  t.states = nil
end

-- The arms that may be played: those of the list, which are live and in ascending order, or all
-- live ones if there is none; but for those that are taken. So many are wanted.
--
-- `every` tells that nothing is ruled out, `has` tells it of a single arm. What is found out about
-- the list is kept here, for the next arm that is wanted.
function catalogue.allowed(t, listed, wanted)
  local allowed = { arms = listed, wanted = wanted, taken = {}, taken_count = 0 }
  allowed.every = t.muted == 0 and not listed
  local set = {}
  for _, arm in ipairs(listed or {}) do
    set[arm] = true
  end
  function allowed.has(arm)
    if allowed.taken[arm] then
      return false
    end
    return listed and set[arm] or not listed and catalogue.is_live(t, arm)
  end
  return allowed
end

-- The arm is no longer allowed.
function catalogue.take(allowed, arm)
  allowed.taken[arm] = true
  allowed.taken_count = allowed.taken_count + 1
  allowed.every = false
end

-- This arm and no other.
function catalogue.only(t, arm)
  return catalogue.allowed(t, { arm }, 1)
end

-- So many arms that are live, or all of them.
function catalogue.some_live(t, most)
  local live = {}
  for arm = 0, t.arms_ever - 1 do
    if #live < most and catalogue.is_live(t, arm) then
      live[#live + 1] = arm
    end
  end
  return live
end

-- Numbers of 32 bits from a packed list; nil if it is empty.
function catalogue.unpack(packed)
  if packed == "" then
    return nil
  end
  local arms = {}
  for place = 1, #packed, 4 do
    arms[#arms + 1] = struct.unpack("<I4", packed, place)
  end
  return arms
end
