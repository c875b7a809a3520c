-- include: path
-- Context intervals, and what is up for choice in them.
local interval = {}

function interval.index(x, depth)
  local size = 2 ^ depth
  return math.min(math.floor(x * size), size - 1)
end

local function found_at(base, kind, x, deepest)
  local fields = {}
  for depth = 0, deepest do
    fields[depth + 1] = path.field(kind, depth, interval.index(x, depth))
  end
  return redis.call("HMGET", key.path(base), unpack(fields))
end

-- The widest flagged ball at x, or nil.
function interval.flagged_at(base, x, deepest)
  for _, id in ipairs(found_at(base, "f", x, deepest)) do
    if id then
      return tonumber(id)
    end
  end
end

-- Notes a ball that is up for choice: the best so far, or the second.
function interval.consider(found, score, id)
  if score < found.score or (found.best and score == found.score and id < found.best) then
    found.second, found.second_score = found.best, found.score
    found.best, found.score = id, score
  elseif score < found.second_score then
    found.second, found.second_score = id, score
  end
end

-- Nothing is up for choice yet.
function interval.nothing()
  return { score = math.huge, second_score = math.huge }
end

-- The second ball of an interval; one of the same range if the first is one of many fresh ones.
local function runner_up(base, depth, index)
  local top = redis.call("ZRANGE", key.active(base, depth, index), 0, 1, "WITHSCORES")
  if top[1] and #top[1] == 8 then
    local first, last = struct.unpack(">I4I4", top[1])
    if first < last then
      return first + 1, tonumber(top[2])
    end
  end
  if top[3] then
    return struct.unpack(">I4", top[3]), tonumber(top[4])
  end
end

-- What is up for choice at x: the best active ball, its score, the second and its score, each nil
-- if there is none; and the best mean of a ball there, or NaN.
function interval.best_at(base, x, deepest)
  local found, lowest, deep = interval.nothing(), math.huge, 0
  for place, packed in ipairs(found_at(base, "a", x, deepest)) do
    if packed then
      local score, id, mean_score = path.unpack(packed)
      if score < math.huge then
        interval.consider(found, score, id)
        deep = found.best == id and found.score == score and place - 1 or deep
      end
      lowest = math.min(lowest, mean_score)
    end
  end
  if found.best then
    local second, score = runner_up(base, deep, interval.index(x, deep))
    if second and second ~= found.best then
      interval.consider(found, score, second)
    end
  end
  found.best_mean = lowest < math.huge and -lowest or 0 / 0
  return found
end
