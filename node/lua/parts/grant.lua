-- Part grant: the only place where a vote is written.

-- grant writes the holder's vote and its TTL. It returns nil, or an error; then nothing of the vote is left, and
-- no key without a TTL (docs/safety.md A29). left is the lock's PTTL before, -2 if nobody holds it. timeout
-- is the name of a reader's timeout key, else false.
--
-- The lock's counter must have been raised before, except for a vote that is put back.
local function grant(lock, holder, mode, count, ttl, left, timeout)
  local try = redis.pcall
  local timed = timeout and try('set', timeout, '1', 'px', ttl) -- first, because SET gives the key its TTL at once
  if timed and timed.err then
    return timed.err
  end
  local new = left == -2
  local added
  if new and mode ~= 'x' then
    added = try('hset', lock, 'mode', mode == 'r' and 'read' or 'write', holder, count)
  else
    added = try('hset', lock, holder, count)
  end
  local done = added
  if type(added) == 'number' and (new or left < tonumber(ttl)) then
    done = try('pexpire', lock, ttl)
  end
  if type(done) == 'number' then
    return nil
  end
  if new then -- HDEL, and no DEL: what the user may not do here, no release could do later
    try('hdel', lock, holder, 'mode')
  elseif added == 1 then
    try('hdel', lock, holder)
  end
  if timeout then
    try('del', timeout)
  end
  return done.err
end

