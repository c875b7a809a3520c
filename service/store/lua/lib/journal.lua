-- The decision log: a stream of what happened, of so many entries as the tenant wants, about.
local journal = {}

local function digits(number)
  return string.format("%.17g", number)
end

local function add(t, now, event, ...)
  local stream = key.log(t.base)
  redis.call("XADD", stream, "MAXLEN", "~", t.log, "*", "event", event, "at", now, ...)
end

-- An event of an arm.
function journal.arm(t, now, event, arm)
  if t.log > 0 then
    add(t, now, event, "arm", arm)
  end
end

-- An event of a decision, with all that an evaluation needs to know of it.
function journal.decision(t, now, event, d, reward)
  if t.log == 0 then
    return
  end
  add(
    t,
    now,
    event,
    "id",
    d.id,
    "x",
    digits(d.x),
    "raw",
    digits(d.raw or d.x),
    "arm",
    d.arm,
    "ball",
    d.ball,
    "phase",
    d.phase,
    "propensity",
    digits(d.propensity),
    "holdout",
    d.holdout and 1 or 0,
    "reward",
    reward and digits(reward) or ""
  )
end
