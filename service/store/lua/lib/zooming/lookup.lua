-- include: ranking phase ball flagged
-- The balls of the paper's presets that hold some arms at a context, found from where they began.
local lookup = {}

local function comes_before(a, b)
  if a.phase ~= b.phase then
    return a.phase == phase.FLAGGED
  elseif a.phase ~= phase.FLAGGED then
    return a.score < b.score or (a.score == b.score and a.id < b.id)
  end
  return a.depth < b.depth or (a.depth == b.depth and a.order < b.order)
end

-- Puts a ball in its place, among so many at the most.
local function insert(balls, b, most)
  local low, high = 1, #balls + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if comes_before(balls[middle], b) then
      low = middle + 1
    else
      high = middle
    end
  end
  if low <= most then
    table.insert(balls, low, b)
    balls[most + 1] = nil
  end
end

local function hold(level, id, arm, position)
  level[id] = level[id] or {}
  table.insert(level[id], { arm = arm, position = position })
end

-- The balls that the arms began in, each with those arms and their positions there.
local function beginnings(t, arms)
  local level = {}
  for _, arm in ipairs(arms) do
    if arm < t.root_arms then
      hold(level, 0, arm, arm)
    else
      local first = redis.call("HGET", key.catalogue(t.base), arm)
      hold(level, struct.unpack("<I4", first), arm, 0)
    end
  end
  return level
end

-- Of the balls of a level, those that are split give way to their children at x, which are the next
-- level; the others are found, each with its arms by their positions in `named`.
local function next_level(t, level, x, found)
  local ids, children = {}, {}
  for id in pairs(level) do
    ids[#ids + 1] = id
  end
  table.sort(ids)
  for place, packed in ipairs(redis.call("HMGET", key.balls(t.base), unpack(ids))) do
    local b = ball.unpack(ids[place], packed)
    b.named = {}
    for _, one in ipairs(level[b.id]) do
      b.named[one.position] = one.arm
      if b.phase == phase.SPLIT then
        local child, position = ball.forwarded(t.base, b, one.position, x)
        if child then
          hold(children, child, one.arm, position)
        end
      end
    end
    if b.phase ~= phase.SPLIT then
      found[#found + 1] = b
    end
  end
  return children
end

-- The best balls at x that hold the arms, each with those arms: one more than are wanted.
function lookup.best(t, x, allowed)
  local found, best = {}, {}
  local level = beginnings(t, allowed.arms)
  while next(level) do
    level = next_level(t, level, x, found)
  end
  for _, b in ipairs(found) do
    if b.phase == phase.ASLEEP then -- one of its arms has just been resumed
      ranking.wake(t.base, b, t.confidence)
    elseif b.phase == phase.FLAGGED then
      b.order = flagged.order(t.base, b)
    end
    b.score = ranking.score(b, t.confidence)
    insert(best, b, allowed.wanted + 1)
  end
  return best
end
