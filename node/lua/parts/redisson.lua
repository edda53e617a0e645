-- Part redisson: names that Redisson derives from a lock's. A lock that brings its own braces
-- keeps them, any other is wrapped, so that all its keys are in one slot of a cluster.

local function braced(lock)
  return string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
end

-- A reader's vote lives as long as its timeout key. Our readers have one hold each.
local function timeout_key(lock, reader, hold)
  return braced(lock) .. ':' .. reader .. ':rwlock_timeout:' .. hold
end

