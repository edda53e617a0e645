-- Part grant: the only place where a vote is written.

-- grant writes the holder's vote with its TTL, as a whole or not at all: no key may be left
-- without a TTL, whichever command fails (docs/safety.md A29). left is the lock's PTTL
-- before. Returns nil, or why it failed and whether the vote may be there all the same.
local function grant(lock, holder, mode, count, ttl, left)
  local timeout = mode == 'r' and timeout_key(lock, holder, 1)
  if timeout then -- first, because it has its TTL from the beginning
    local set = try('set', timeout, '1', 'px', ttl)
    if set.err then
      return set.err, false
    end
  end
  local added
  if left == -2 and mode ~= 'x' then
    added = try('hset', lock, 'mode', mode == 'r' and 'read' or 'write', holder, count)
  else
    added = try('hset', lock, holder, count)
  end
  local done = added
  if type(added) == 'number' and (left == -2 or left < tonumber(ttl)) then
    done = try('pexpire', lock, ttl)
  end
  if done == 1 or type(done) == 'number' then
    return nil
  end
  local undone = 0
  if left == -2 then
    undone = try('del', lock)
  elseif added == 1 then
    undone = try('hdel', lock, holder)
  end
  if timeout then
    try('del', timeout)
  end
  return done.err, type(undone) == 'table'
end

