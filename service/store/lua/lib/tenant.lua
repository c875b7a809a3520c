-- The tenant's hash: is it there, at the revision or incarnation the caller knows, and what are
-- its constants. Counters are fields of the same hash.
local tenant = {}

local function is_over(frozen_until_ms, now)
  return not frozen_until_ms or tonumber(frozen_until_ms) <= now
end

-- For the steps of a request. Returns the constants, or nil and the status to reply with.
function tenant.at_revision(tenant_key, revision, now)
  local field = redis.call(
    "HMGET",
    tenant_key,
    "revision",
    "incarnation",
    "depth",
    "window_ms",
    "retention_ms",
    "slot_ms",
    "section_ms",
    "confidence",
    "buckets",
    "patience",
    "sampling",
    "sums",
    "preset",
    "arms",
    "lipschitz",
    "max_depth",
    "noise",
    "horizon",
    "model",
    "low",
    "span",
    "trials_active",
    "trials_flagged",
    "muted",
    "root_arms",
    "arms_ever",
    "default_reward",
    "log_entries",
    "comparison",
    "frozen_until_ms"
  )
  if not field[1] then
    return nil, "unknown_tenant"
  end
  if field[1] ~= revision then
    return nil, "stale"
  end
  if not is_over(field[30], now) then
    return nil, "frozen"
  end
  return {
    key = tenant_key,
    base = key.base(tenant_key, field[2]),
    depth = tonumber(field[3]),
    window_ms = tonumber(field[4]),
    retention_ms = tonumber(field[5]),
    slot_ms = tonumber(field[6]),
    section_ms = tonumber(field[7]),
    confidence = tonumber(field[8]),
    buckets = tonumber(field[9]),
    patience = tonumber(field[10]),
    sampling = field[11],
    sums = field[12],
    preset = field[13],
    arms = tonumber(field[14]),
    lipschitz = field[15],
    max_depth = tonumber(field[16]),
    noise = field[17],
    horizon = field[18],
    model = field[19],
    low = tonumber(field[20]),
    span = tonumber(field[21]),
    trials = tonumber(field[22] or 0) + tonumber(field[23] or 0),
    muted = tonumber(field[24] or 0),
    root_arms = tonumber(field[25]),
    arms_ever = tonumber(field[26]),
    default = tonumber(field[27]),
    log = tonumber(field[28]),
    comparison = field[29],
  }
end

-- For the steps of a split. Returns the base of the tenant's keys, or nil when it is gone.
function tenant.base_of(tenant_key, incarnation)
  if redis.call("HGET", tenant_key, "incarnation") ~= incarnation then
    return nil
  end
  return key.base(tenant_key, incarnation)
end

-- Whether the tenant is being exported, so that nothing of it may change.
function tenant.is_frozen(tenant_key, now)
  return not is_over(redis.call("HGET", tenant_key, "frozen_until_ms"), now)
end

function tenant.count(tenant_key, counter, by)
  return redis.call("HINCRBY", tenant_key, counter, by)
end

-- For changes that no other field of the hash tells of: an export is whole if the hash is the same
-- at its end.
function tenant.note_change(tenant_key)
  tenant.count(tenant_key, "changes", 1)
end

-- The reward on the scale of [0, 1] on which everything is learned.
function tenant.to_unit(t, reward)
  return (reward - t.low) / t.span
end

-- Notes a context as it was sent, for the scale that is learned from the first of them, so many;
-- and from one more, if those are all the same.
function tenant.gather(t, context, wanted)
  local contexts, packed = key.contexts(t.base), struct.pack("<d", context)
  local noted = redis.call("STRLEN", contexts) / 8
  if noted < wanted or (noted == wanted and redis.call("GETRANGE", contexts, 0, 7) ~= packed) then
    redis.call("APPEND", contexts, packed)
  end
end
