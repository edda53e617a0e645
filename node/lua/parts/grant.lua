-- Part grant: the only place where a vote is written. It is a piece of votes.lua and topup.lua.
-- It reads lock, holder, mode, count, ttl; left, the lock's PTTL before; and timeout, the name of
-- a reader's timeout key, or false. It writes the holder's vote and its TTL, and sets failed, nil
-- or an error, and stays: whether the vote may be there although it failed.
-- If one of the commands fails, the others are undone, so that no key is left without a TTL
-- (docs/safety.md A29).
local failed, stays
local timed = timeout and try('set', timeout, '1', 'px', ttl) -- first, because SET gives the key its TTL at once
if timed and timed.err then
  failed = timed.err
else
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
  if type(done) ~= 'number' then
    local undone = 0
    if type(added) ~= 'number' then -- nothing was written
    elseif left == -2 then
      undone = try('del', lock)
    elseif added == 1 then
      undone = try('hdel', lock, holder)
    end
    if timeout then
      try('del', timeout)
    end
    failed, stays = done.err, type(undone) == 'table'
  end
end
