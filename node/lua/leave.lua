-- Takes a waiter out of the queue, and wakes the next when the lock is free.
-- KEYS[1] the lock   KEYS[2] the lock's queue   ARGV[1] waiter
-- Returns 1 it was queued, or 0 it was not.
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
