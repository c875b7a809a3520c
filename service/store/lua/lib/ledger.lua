-- include: decision
-- How many decisions were issued, and what became of them, by the section of time of their select.
--
-- A ring of SECTIONS cells of 24 bytes, big-endian: number of the section, issued, rewarded,
-- defaulted, censored. The reader tells by a section's number what has become of the others, or
-- that it is long past. tenant.py makes sections so long that window and retention fit the ring
-- with room to spare.
local ledger = { SECTIONS = 128 }

local CELL, ISSUED = 192, 64
local COUNTS = {
  [decision.REWARDED] = 96,
  [decision.DEFAULTED] = 128,
  [decision.CENSORED] = 160,
}

-- Adds to one count of the section that holds `at`; a cell of an older section is begun anew.
local function add(t, at, count)
  local ring = key.ledger(t.base)
  local section = math.floor(at / t.section_ms)
  local cell = section % ledger.SECTIONS * CELL
  local found =
    redis.call("BITFIELD", ring, "GET", "i64", cell, "INCRBY", "u32", cell + count, 1)[1]
  if found == section then
    return
  end
  redis.call("BITFIELD", ring, "INCRBY", "u32", cell + count, -1)
  if found < section then
    redis.call("BITFIELD", ring, "SET", "i64", cell, section, "SET", "i64", cell + 64, 0)
    redis.call("BITFIELD", ring, "SET", "i64", cell + 128, 0, "SET", "u32", cell + count, 1)
  end
end

function ledger.issued(t, d)
  add(t, d.at, ISSUED)
end

-- Those that expire are not counted: they are what is left.
function ledger.closed(t, d)
  if COUNTS[d.state] then
    add(t, d.at, COUNTS[d.state])
  end
end
