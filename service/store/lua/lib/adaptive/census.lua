-- How many balls there are, under the preset `adaptive`: counters of the tenant.
local census = {}

-- Counts what balls at these depths have become more or fewer, and whatever else is counted with
-- them, in two calls.
function census.count(t, balls, counts)
  local counters, fields = {}, {}
  for depth, gained in pairs(balls) do
    counts["clusters_" .. depth] = gained
    counts.active = (counts.active or 0) + gained
  end
  for counter in pairs(counts) do
    counters[#counters + 1] = counter
  end
  for place, count in ipairs(redis.call("HMGET", t.key, unpack(counters))) do
    local counter = counters[place]
    fields[2 * place - 1], fields[2 * place] = counter, (tonumber(count) or 0) + counts[counter]
  end
  redis.call("HSET", t.key, unpack(fields))
end
