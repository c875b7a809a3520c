-- What a tenant's rewards add up to.
local tally = {}

-- Adds to the sums over rewarded decisions: rewards, upper and estimated regret. Packed doubles:
-- HINCRBYFLOAT would compute otherwise than everyone else.
function tally.add(t, reward, regret_upper, regret_estimate)
  local rewards, upper, estimate = struct.unpack("<ddd", t.sums)
  t.sums = struct.pack("<ddd", rewards + reward, upper + regret_upper, estimate + regret_estimate)
  redis.call("HSET", t.key, "sums", t.sums)
end

-- Adds to what is kept of rewards to tell the holdout's from all others: count, sum and sum of
-- squares of each. Only while there is a holdout: both are to be of the same time.
function tally.compare(t, holdout, reward)
  if t.comparison == "" then
    return
  end
  local sums = { struct.unpack("<dddddd", t.comparison) }
  local from = holdout and 3 or 0
  for place, value in ipairs({ 1, reward, reward * reward }) do
    sums[from + place] = sums[from + place] + value
  end
  t.comparison = struct.pack("<dddddd", unpack(sums, 1, 6))
  redis.call("HSET", t.key, "comparison", t.comparison)
end
