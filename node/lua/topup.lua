-- Puts the vote of a live lease back where it is missing. No token, no counter, no
-- queue.
-- KEYS[1] the lock   KEYS[2] the node record
-- ARGV[1] the holder's field   ARGV[2] TTL in ms   ARGV[3] mode   ARGV[4] hold count
-- ARGV[5] the gate of a voting master   ARGV[6] how a recovering one's begins
-- Returns 1 granted, or -1 - PTTL held by another.
-- Errors: REDLOCK GATE <gate>.
--
-- A recovering master takes it: it grants nothing to others meanwhile, and so a
-- lease survives a rolling restart of all masters.
local lock, holder, ttl, mode = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local gate = redis.call('hget', KEYS[2], 'gate') or ''
if gate ~= ARGV[5] and string.sub(gate, 1, #ARGV[6]) ~= ARGV[6] then
  return redis.error_reply('REDLOCK GATE ' .. gate)
end
local left = redis.call('pttl', lock)
if left ~= -2 and redis.call('hexists', lock, holder) == 0 and
   not (mode == 'r' and redis.call('hget', lock, 'mode') == 'read') then
  return -1 - left
end
-- The vote is put back as a whole or not at all, with a TTL on every key, as in votes.lua.
local timeout
if mode == 'r' then
  timeout = (string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}') .. ':' .. holder .. ':rwlock_timeout:1'
  redis.call('set', timeout, '1', 'px', ttl)
end
local done
if left == -2 and mode ~= 'x' then
  done = redis.pcall('hset', lock, 'mode', mode == 'r' and 'read' or 'write', holder, ARGV[4])
else
  done = redis.pcall('hset', lock, holder, ARGV[4])
end
if type(done) == 'number' and left < tonumber(ttl) then
  done = redis.pcall('pexpire', lock, ttl)
end
if type(done) == 'table' then
  if left == -2 then
    redis.pcall('del', lock)
  end
  if timeout then
    redis.pcall('del', timeout)
  end
  return done
end
return 1
