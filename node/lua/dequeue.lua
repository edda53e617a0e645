-- dequeue.lua: takes a waiter out of the queue. If the waiter was first and the lock is free,
-- it wakes the next waiter.
--
-- KEYS[1] the lock   KEYS[2] the lock's queue
-- ARGV[1] the waiter   ARGV[2] the ticket of its place, 0 for any place
--
-- Returns 1 if the waiter had that place, else 0.

local call = redis.call
local lock, queue = KEYS[1], KEYS[2]
local waiter, ticket = ARGV[1], ARGV[2]

if ticket ~= '0' and tonumber(call('zscore', queue, waiter) or 0) ~= tonumber(ticket) then
  return 0
end
local first = call('zrange', queue, 0, 0)[1]
if call('zrem', queue, waiter) == 0 then
  return 0
end
if first == waiter then
  local next_in_line = call('zrange', queue, 0, 0)[1]
  if next_in_line and (call('exists', lock) == 0 or call('hget', lock, 'mode') == 'read') then
    call('publish', 'redlock:wake:' .. string.sub(next_in_line, 1, 36), lock)
  end
end
return 1
