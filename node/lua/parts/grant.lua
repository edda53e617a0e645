-- Part grant: the only place where a vote is written.

-- grant writes the holder's vote and its TTL. If one of its commands fails, it undoes the
-- others, so that no key is left without a TTL (docs/safety.md A29). left is the lock's PTTL
-- before. It returns nil, or an error and whether the vote may be there although it failed.
local function grant(lock, holder, mode, count, ttl, left)
  local timeout = mode == 'r' and timeout_key(lock, holder, 1)
  if timeout then -- first, because SET gives the key its TTL at once
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

