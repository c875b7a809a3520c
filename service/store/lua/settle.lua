-- include: tenant phase ball partition
--
-- Brings balls of the paper's presets up to date with what has become of one of their arms.
--
-- Guarantee: depends on the arm's state alone; the same call again is counted, and changes nothing.
-- KEYS[1]  the tenant's hash
-- ARGV[1]  revision of the tenant that the caller knows
-- ARGV[2]  arm
-- ARGV[3]  now, ms
-- ARGV[4…] balls that hold the arm
-- Derived  balls arms states path active means flagged waiting asked cells samples claims
-- Returns  {"settled", balls due for a split, …} {"stale"} {"frozen"} {"unknown_tenant"}
-- Cost     O(log balls) for each ball
local tenant_key = KEYS[1]
local revision = ARGV[1]
local arm = tonumber(ARGV[2])
local now = tonumber(ARGV[3])
local BALLS = 4

local t, refusal = tenant.at_revision(tenant_key, revision, now)
if not t then
  return { refusal }
end
tenant.note_change(tenant_key)
local reply = { "settled" }
for place = BALLS, #ARGV do
  local b = ball.load(t.base, tonumber(ARGV[place]))
  if b.phase ~= phase.SPLIT and partition.settle(t, b, arm, now) then
    reply[#reply + 1] = b.id
  end
end
return reply
