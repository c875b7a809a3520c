-- Rules for the store's Lua. A step (service/store/lua/*.lua) names the lib files that it needs in its
-- first line (`-- include: tenant ball`); the loader puts their text in front of it. So each lib file's
-- one table is a local that nothing in that file reads, and a name from elsewhere in every other file.

-- One name for each file below service/store/lua/lib: add it here when you add the file.
local lib = {
  "arm_set",
  "ball",
  "bitmap",
  "bound",
  "catalogue",
  "census",
  "cells",
  "choosing",
  "claim",
  "closing",
  "curve",
  "curve_record",
  "decision",
  "flagged",
  "inference",
  "interval",
  "journal",
  "learning",
  "ledger",
  "lookup",
  "lottery",
  "merging",
  "model",
  "partition",
  "path",
  "phase",
  "posterior",
  "ranking",
  "refining",
  "sampling",
  "score",
  "search",
  "settling",
  "shortlist",
  "standing",
  "tally",
  "tenant",
  "turns",
  "untried",
}

std = "lua51"
read_globals = { "redis", "struct", "cjson", "cmsgpack", "bit", "KEYS", "ARGV" }
table.insert(read_globals, "key") -- written by service/store/keys.py, put in front by the loader
-- Time and chance come in as arguments, and the server's sandbox has no files and no modules.
not_globals = { "dofile", "io", "loadfile", "math.random", "math.randomseed", "module", "os", "package", "print", "require" }

max_line_length = 100
codes = true
color = false

local unread_tables = {}
for _, name in ipairs(lib) do
  table.insert(read_globals, name)
  table.insert(unread_tables, "211/" .. name) -- unused variable
  table.insert(unread_tables, "241/" .. name) -- filled, but never read
end
files["service/store/lua/lib/**/*.lua"] = { ignore = unread_tables }
