-- The packed record of a decision, kept in one hash a time slot.
--
-- An id made by the service tells its slot (the caller passes it as `hint`); for any other id a
-- pointer leads to the slot. A record past window and retention counts as unknown; the slot goes
-- when it is due (close.lua). While a decision is open, its record has `bound`, what the arm could
-- earn at the most by what was known at the select, and `best_mean`, the best mean of a ball there
-- (NaN if there was none); then reward, attempt and when it was closed. `ucb` and that of the
-- runner-up (NaN if there was none) are for people to read. `raw` is there if the context was
-- mapped, the propensity if it is not 1.
local decision = { OPEN = 1, REWARDED = 2, DEFAULTED = 3, CENSORED = 4, EXPIRED = 5 }

local HEAD, ISSUED, CLOSED, TAIL = "<BI6d", "dd", "dI3I5", "I4I4I4ffI4"
-- What the first byte has besides the state.
local IN_FLAGGED, HOLDOUT, EXPLORED, UNSURE, MAPPED = 8, 16, 32, 64, 128
local SLACK_MS = 60000

decision.ATTEMPTS = 2 ^ 24

function decision.is_open(packed)
  return string.byte(packed) % 8 == decision.OPEN
end

function decision.unpack(id, slot, packed)
  local d = { id = id, slot = slot }
  local first, rest
  first, d.at, d.x, rest = struct.unpack(HEAD, packed)
  d.state, d.phase = first % 8, bit.band(first, IN_FLAGGED) > 0 and 2 or 1
  d.holdout = bit.band(first, HOLDOUT) > 0
  d.explored = bit.band(first, EXPLORED) > 0
  if d.state == decision.OPEN then
    d.bound, d.best_mean, rest = struct.unpack("<" .. ISSUED, packed, rest)
  else
    local after
    d.reward, d.attempt, after, rest = struct.unpack("<" .. CLOSED, packed, rest)
    d.closed_at = d.at + after
  end
  d.ball, d.position, d.arm, d.ucb, d.runner_ucb, d.runner, rest =
    struct.unpack("<" .. TAIL, packed, rest)
  d.propensity = 1
  if bit.band(first, UNSURE) > 0 then
    d.propensity, rest = struct.unpack("<d", packed, rest)
  end
  if bit.band(first, MAPPED) > 0 then
    d.raw = struct.unpack("<d", packed, rest)
  end
  return d
end

local function pack(d)
  local first = d.state
    + (d.phase == 2 and IN_FLAGGED or 0)
    + (d.holdout and HOLDOUT or 0)
    + (d.explored and EXPLORED or 0)
    + (d.propensity ~= 1 and UNSURE or 0)
    + (d.raw and MAPPED or 0)
  local middle
  if d.state == decision.OPEN then
    middle = struct.pack("<" .. ISSUED, d.bound, d.best_mean)
  else
    middle = struct.pack("<" .. CLOSED, d.reward, d.attempt, math.max(d.closed_at - d.at, 0))
  end
  return struct.pack(HEAD, first, d.at, d.x)
    .. middle
    .. struct.pack("<" .. TAIL, d.ball, d.position, d.arm, d.ucb, d.runner_ucb, d.runner)
    .. (d.propensity ~= 1 and struct.pack("<d", d.propensity) or "")
    .. (d.raw and struct.pack("<d", d.raw) or "")
end

-- What a slot has of the decision, unless that is past.
local function recall(t, id, slot, now)
  local packed = redis.call("HGET", key.decisions(t.base, slot), id)
  local d = packed and decision.unpack(id, slot, packed)
  return d and now <= d.at + t.window_ms + t.retention_ms and d or nil
end

-- One that is past must not hide another that was made under its id since.
function decision.find(t, id, hint, now)
  local d = hint ~= "" and recall(t, id, hint, now)
  if d then
    return d
  end
  local slot = redis.call("GET", key.pointer(t.base, id))
  return slot and recall(t, id, slot, now) or nil
end

local function save(t, d)
  redis.call("HSET", key.decisions(t.base, d.slot), d.id, pack(d))
end

-- When the windows of all decisions of a slot are over.
function decision.closing_ms(t, slot)
  return (slot + 1) * t.slot_ms + t.window_ms
end

-- Saves a new decision; its slot is due when its window is over.
function decision.open(t, d, hint)
  local slot = math.floor(d.at / t.slot_ms)
  d.slot = string.format("%d", slot)
  d.state = decision.OPEN
  save(t, d)
  redis.call("ZADD", key.slots(t.base), "LT", decision.closing_ms(t, slot), d.slot)
  if d.slot ~= hint then
    -- Twice as long, or a minute longer: the clocks of two hosts may differ.
    local wanted_ms = t.window_ms + t.retention_ms
    local keep_ms = wanted_ms + t.slot_ms + math.min(wanted_ms, SLACK_MS)
    redis.call("SET", key.pointer(t.base, d.id), d.slot, "PX", keep_ms)
  end
end

-- Saves what has become of an open decision.
function decision.close(t, d, state, now, reward, attempt)
  d.state, d.closed_at, d.reward, d.attempt = state, now, reward or 0, attempt or 0
  save(t, d)
end
