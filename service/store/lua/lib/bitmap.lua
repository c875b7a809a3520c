-- Bits as SETBIT has them: the first one is the highest of the first byte.
local bitmap = {}

-- So many bits, all set.
function bitmap.all_set(count)
  local rest = count % 8
  local bits = string.rep("\255", math.floor(count / 8))
  return rest > 0 and bits .. string.char(256 - 2 ^ (8 - rest)) or bits
end

-- Whether a bit is set; those behind the last byte are not.
function bitmap.has(bits, place)
  local byte = string.byte(bits, math.floor(place / 8) + 1) or 0
  return math.floor(byte / 2 ^ (7 - place % 8)) % 2 == 1
end
