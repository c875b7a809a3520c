-- The packed record of a decision, kept in one hash a time slot.
--
-- An id made by the service tells its slot (the caller passes it as `hint`); for any other id a
-- pointer leads to the slot. A record past window and retention counts as unknown. `bound` is what
-- the arm could earn at the most by what was known at the select, `best_mean` the best mean of a
-- ball there (NaN if there was none).
local decision = { OPEN = 1, REWARDED = 2 }

local HEAD, TAIL = "<BBddddd", "<I4I4I4I4"
local SLACK_MS = 60000

local function fetch(base, slot, id)
  return redis.call("HGET", key.decisions(base, slot), id)
end

function decision.find(t, id, hint, now)
  local slot = hint
  local packed = hint ~= "" and fetch(t.base, hint, id)
  if not packed then
    slot = redis.call("GET", key.pointer(t.base, id))
    packed = slot and fetch(t.base, slot, id)
  end
  if not packed then
    return nil
  end
  local d = { id = id, slot = slot }
  local rest
  d.state, d.phase, d.at, d.x, d.reward, d.bound, d.best_mean, rest = struct.unpack(HEAD, packed)
  d.ball, d.position, d.arm, d.attempt = struct.unpack(TAIL, packed, rest)
  if now > d.at + t.window_ms + t.retention_ms then
    return nil
  end
  return d
end

function decision.save(t, d)
  local packed = struct.pack(
    HEAD .. TAIL,
    d.state,
    d.phase,
    d.at,
    d.x,
    d.reward,
    d.bound,
    d.best_mean,
    d.ball,
    d.position,
    d.arm,
    d.attempt
  )
  redis.call("HSET", key.decisions(t.base, d.slot), d.id, packed)
end

-- Saves a new decision, to be forgotten after window and retention.
function decision.open(t, d, hint)
  d.slot = string.format("%d", math.floor(d.at / t.slot_ms))
  d.state, d.reward, d.attempt = decision.OPEN, 0, 0
  decision.save(t, d)
  -- Twice as long, or a minute longer: the clocks of two hosts that share a slot may differ.
  local wanted_ms = t.window_ms + t.retention_ms
  local keep_ms = wanted_ms + t.slot_ms + math.min(wanted_ms, SLACK_MS)
  redis.call("PEXPIRE", key.decisions(t.base, d.slot), keep_ms, "NX")
  if d.slot ~= hint then
    redis.call("SET", key.pointer(t.base, d.id), d.slot, "PX", keep_ms)
  end
end
