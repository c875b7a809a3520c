-- include: interval
-- The best of the arms that are allowed, where not every arm is.
local shortlist = {}

-- So few arms are looked up one by one; of more, some that rank high are likely to be allowed.
local FEW = 64
local PORTION, LARGEST_PORTION = 32, 1024

-- Puts an arm in its place among those ranked, best first, and drops the last of too many. Tells
-- whether the arm is one of them.
local function add(ranked, most, value, arm)
  local place = #ranked + 1
  while
    place > 1
    and (
      value < ranked[place - 1].score
      or (value == ranked[place - 1].score and arm < ranked[place - 1].arm)
    )
  do
    place = place - 1
  end
  if place > most then
    return false
  end
  table.insert(ranked, place, { score = value, arm = arm })
  ranked[most + 1] = nil
  return true
end

-- Looks the arms of the list up in an interval.
local function add_listed(ranked, most, sorted_set, arms)
  local members = {}
  for place, arm in ipairs(arms) do
    members[place] = struct.pack(">I4", arm)
  end
  for place, value in ipairs(redis.call("ZMSCORE", sorted_set, unpack(members))) do
    if value then
      add(ranked, most, tonumber(value), arms[place])
    end
  end
end

-- Walks over the arms of an interval from the best one on, while some may be among those ranked.
local function add_passed(ranked, most, sorted_set, allowed)
  local worst = ranked[most] and string.format("%.17g", ranked[most].score) or "inf"
  local last = redis.call("ZCOUNT", sorted_set, "-inf", worst)
  local from, size = 0, PORTION
  while from < last do
    for _, one in ipairs(redis.call("ZRANGE", sorted_set, from, math.min(from + size, last) - 1)) do
      local arm = struct.unpack(">I4", one)
      if allowed.has(arm) then
        local value = tonumber(redis.call("ZSCORE", sorted_set, one))
        if not add(ranked, most, value, arm) then
          return
        end
      end
    end
    from, size = from + size, math.min(2 * size, LARGEST_PORTION)
  end
end

local function add_first(ranked, most, sorted_set)
  local top = redis.call("ZRANGE", sorted_set, 0, most - 1, "WITHSCORES")
  for place = 1, #top, 2 do
    add(ranked, most, tonumber(top[place + 1]), (struct.unpack(">I4", top[place])))
  end
end

-- The arms allowed that have a ball at x, best first: as many as are wanted, and one more.
function shortlist.at(t, x, allowed)
  local ranked, most = {}, allowed.wanted + 1
  for depth = 0, t.depth do
    local sorted_set = key.active(t.base, depth, interval.index(x, depth))
    if not allowed.arms then
      add_first(ranked, most, sorted_set)
    elseif #allowed.arms <= FEW then
      add_listed(ranked, most, sorted_set, allowed.arms)
    else
      add_passed(ranked, most, sorted_set, allowed)
    end
  end
  return ranked
end
