-- Takes a waiter out of the queue, and wakes the next when the lock is free.
-- KEYS[1] the lock   KEYS[2] the lock's queue   ARGV[1] waiter
-- ARGV[2] the ticket of the place to leave, 0 for any
-- Returns 1 it was queued there, or 0 it was not.
if ARGV[2] ~= '0' and tonumber(redis.call('zscore', KEYS[2], ARGV[1]) or 0) ~= tonumber(ARGV[2]) then
  return 0
end
local first = redis.call('zrange', KEYS[2], 0, 0)[1]
if redis.call('zrem', KEYS[2], ARGV[1]) == 0 then
  return 0
end
if first == ARGV[1] then
  first = redis.call('zrange', KEYS[2], 0, 0)[1]
  if first and (redis.call('exists', KEYS[1]) == 0 or redis.call('hget', KEYS[1], 'mode') == 'read') then
    redis.call('publish', 'redlock:wake:' .. string.sub(first, 1, 36), KEYS[1])
  end
end
return 1
