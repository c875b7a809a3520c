-- The phases of a ball, and the names that callers know them by.
--
-- An active ball is asleep, and in no ranking, while none of its arms is live. A ball whose arms
-- have all been retired counts as split, without children.
local phase = { ACTIVE = 1, FLAGGED = 2, SPLIT = 3, ASLEEP = 4 }

phase.NAME = { "active", "flagged", "split", "active" }
