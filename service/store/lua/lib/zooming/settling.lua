-- include: tenant path ranking
-- What becomes of balls when an arm is new, under the paper's presets; where one of their arms
-- changes, partition.lua has it.
local settling = {}

-- A ball of its own for a new arm; its record comes from children.py.
function settling.add_arm(t, id, arm, record)
  redis.call("SET", key.arms(t.base, id), struct.pack("<I4", arm))
  redis.call("HSET", key.balls(t.base), id, record)
  ranking.add_range(t.base, 0, 0, id, id)
  path.refresh(t.base, 0, 0)
  tenant.count(t.key, "active", 1)
  tenant.count(t.key, "clusters_0", 1)
end

-- Its balls are settled one by one, after this.
function settling.arm_changed() end
