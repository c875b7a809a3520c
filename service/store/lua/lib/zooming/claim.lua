-- Claims on splits: who works on a full ball, until when, and the ids reserved for its children.
local claim = { LAYOUT = "<dI4I4" }

function claim.read(base, id)
  local packed = redis.call("HGET", key.claims(base), id)
  if not packed then
    return nil
  end
  local held = {}
  local rest
  held.deadline, held.first, held.count, rest = struct.unpack(claim.LAYOUT, packed)
  held.token = string.sub(packed, rest)
  return held
end

function claim.write(base, id, held)
  local packed = struct.pack(claim.LAYOUT, held.deadline, held.first, held.count) .. held.token
  redis.call("HSET", key.claims(base), id, packed)
end

function claim.drop(base, id)
  redis.call("HDEL", key.claims(base), id)
end
