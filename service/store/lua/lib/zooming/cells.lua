-- include: tenant catalogue bitmap
-- The samples of a flagged ball: who is asked for one, and what has come in.
--
-- `cells` holds, for each arm of the ball, buckets + 2 numbers of 32 bits: how often the arm was
-- issued, how many of its cells are full, and the count of each cell. `asked` has a bit for each
-- arm that has a short cell and has not been set aside.
local cells = {}

function cells.bump(base, b, place)
  return redis.call("BITFIELD", key.cells(base, b.id), "INCRBY", "u32", "#" .. place, 1)[1]
end

function cells.ask_no_more(base, b, position)
  if redis.call("SETBIT", key.asked(base, b.id), position, 0) == 1 then
    b.asked = b.asked - 1
  end
end

function cells.ask_live_arms(t, b)
  redis.call("SET", key.asked(t.base, b.id), bitmap.all_set(b.arms))
  b.asked = b.arms
  if t.muted > 0 then
    local arms = redis.call("GET", key.arms(t.base, b.id))
    for position = 0, b.arms - 1 do
      if not catalogue.is_live(t, (struct.unpack("<I4", arms, 4 * position + 1))) then
        cells.ask_no_more(t.base, b, position)
      end
    end
  end
end

-- Asks an arm for samples just when it is live, short of some, and has not been asked too often.
-- The caller saves the record.
function cells.settle(t, b, position, is_live)
  if b.k == 0 then
    return
  end
  local first = position * (t.buckets + 2)
  local counts = redis.call(
    "BITFIELD",
    key.cells(t.base, b.id),
    "GET",
    "u32",
    "#" .. first,
    "GET",
    "u32",
    "#" .. first + 1
  )
  local wanted = counts[1] < t.patience * b.k * t.buckets and counts[2] < t.buckets
  if not is_live or not wanted then
    cells.ask_no_more(t.base, b, position)
  elseif redis.call("SETBIT", key.asked(t.base, b.id), position, 1) == 0 then
    b.asked = b.asked + 1
  end
end

-- Stores a sample and counts its cell; a ball that needs no samples only counts the reward.
function cells.count(base, b, t, position, x, reward)
  b.samples = b.samples + 1
  if b.k == 0 then
    return
  end
  local width = 2 ^ -b.depth
  local scaled = (x - b.index * width) / width * t.buckets
  local bucket = math.min(math.floor(scaled), t.buckets - 1)
  redis.call("APPEND", key.samples(base, b.id, bucket), struct.pack("<I4dd", position, x, reward))
  local cells_of_arm = position * (t.buckets + 2)
  local count = cells.bump(base, b, cells_of_arm + 2 + bucket)
  if count <= b.k then
    b.filled = b.filled + 1
    tenant.count(t.key, "cells_filled", 1)
  end
  if count == b.k and cells.bump(base, b, cells_of_arm + 1) == t.buckets then
    cells.ask_no_more(base, b, position)
  end
end

-- Forgets the samples of a ball that is no longer flagged.
function cells.drop_samples(base, b, buckets)
  local leftovers = { key.asked(base, b.id), key.cells(base, b.id) }
  for bucket = 0, buckets - 1 do
    leftovers[#leftovers + 1] = key.samples(base, b.id, bucket)
  end
  redis.call("UNLINK", unpack(leftovers))
end
