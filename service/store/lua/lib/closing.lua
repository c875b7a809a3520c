-- include: tenant tally catalogue learning decision ledger journal
-- How an open decision ends: credited with a reward or a default, or without one.
local closing = {}

local NAMES = {
  [decision.REWARDED] = "rewarded",
  [decision.DEFAULTED] = "defaulted",
  [decision.CENSORED] = "censored",
  [decision.EXPIRED] = "expired",
}

local function close(t, d, state, now, reward, attempt)
  decision.close(t, d, state, now, reward, attempt)
  ledger.closed(t, d)
  journal.decision(t, now, NAMES[state], d, reward)
end

-- Where a credited decision's reward went or goes; nil when nobody learns from it, since it belongs
-- to the holdout or its arm has been retired.
function closing.spot(t, d)
  if d.holdout or catalogue.state(t, d.arm) == catalogue.RETIRED then
    return nil
  end
  return learning.locate(t, d)
end

-- Credits the reward and closes the decision as rewarded or defaulted.
function closing.credit(t, d, spot, state, reward, now, attempt)
  local bound, best_mean = d.bound, d.best_mean
  if spot then
    local value = tenant.to_unit(t, reward)
    learning.credit(t, spot, d, value, now)
    local known_best = best_mean == best_mean and best_mean or value
    tally.add(t, reward, (bound - value) * t.span, (known_best - value) * t.span)
  end
  tally.compare(t, d.holdout, reward)
  close(t, d, state, now, reward, attempt)
end

-- Closes the decision as censored or expired: nobody learns anything. Returns its spot, if it has
-- one.
function closing.without_reward(t, d, state, now)
  local spot = closing.spot(t, d)
  if spot then
    learning.abandon(t, spot)
  end
  close(t, d, state, now)
  return spot
end
