-- topup.lua: restores the vote of a live lease on a master that has lost it. It does not touch the
-- counter, and gives no token. Who has a vote has no place, so it removes the holder's.
--
-- KEYS[1] the lock   KEYS[2] the record   KEYS[3] a key that is there if the holder is barred
-- KEYS[4] the lock's queue
-- ARGV[1] the holder's field   ARGV[2] TTL in ms   ARGV[3] mode   ARGV[4] hold count
-- ARGV[5] the record state of a voting master   ARGV[6] how that of a quarantined one begins
--
-- Returns 1 if the vote is there now, or -1 - PTTL if another holds the lock, or -1 if the holder
-- is barred: its votes were taken away, and must not come back (ForceUnlock).
-- Errors: REDLOCK STATE <state>, the record has another state.

local call, try = redis.call, redis.pcall
local lock, record, queue = KEYS[1], KEYS[2], KEYS[4]
local holder, ttl, mode, count, state = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- @part record_state
-- @part redisson
-- @part grant

local refused = record_state_error(record, state, ARGV[6])
if refused then
  return refused
end
if call('exists', KEYS[3]) == 1 then
  return -1
end
local left = call('pttl', lock)
if left ~= -2 and call('hexists', lock, holder) == 0 and
   not (mode == 'r' and call('hget', lock, 'mode') == 'read') then
  return -1 - left
end
local failed = grant(lock, holder, mode, count, ttl, left, mode == 'r' and timeout_key(lock, holder, 1))
if failed then
  return redis.error_reply(failed)
end
local place = holder .. '/' .. mode
try('zrem', queue, place, place .. '/' .. state)
return 1
