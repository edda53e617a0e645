-- Part redisson: names that Redisson derives from a lock's name. A name with braces stays as it
-- is, any other is wrapped in braces, so that all keys of a lock are in one slot of a cluster.

local function braced(lock)
  return string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
end

-- A reader's hold count is a field that others write, and each hold has a timeout key. A script that believed any number would run for ever, and
-- one that has written cannot be killed. A reader of Redisson's with more holds lives as long as its first MOST_HOLDS.
local MOST_HOLDS = 10000

-- A reader's vote lives as long as its timeout key. A reader of this library has one hold.
local function timeout_key(lock, reader, hold)
  return braced(lock) .. ':' .. reader .. ':rwlock_timeout:' .. hold
end

