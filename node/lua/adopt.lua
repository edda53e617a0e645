-- adopt.lua: gives the vote of one holder to another, who adopts its lease. Of several holders that
-- ask for the vote one gets it, because it is not there any more for the next.
--
-- KEYS[1] the lock   KEYS[2] the record
-- ARGV[1] the holder that adopts   ARGV[2] the holder that had the vote
-- ARGV[3] TTL in ms   ARGV[4] the state that the record must have
--
-- Returns 1 if the vote is the first holder's now, as on a replay, else 0. The vote's TTL is then
-- the given one, or what was left if that is longer. The counter stays as it is.
-- Errors: REDLOCK STATE <state>, the record has another state. A master that does not vote may have
-- its data from an older time, in which the vote was not yet adopted.

local call = redis.call
local lock, record = KEYS[1], KEYS[2]
local heir, holder, ttl, state = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local found = call('hget', record, 'state') or ''
if found ~= state then
  return redis.error_reply('REDLOCK STATE ' .. found)
end
if call('hexists', lock, heir) == 0 then
  if call('hexists', lock, holder) == 0 then
    return 0
  end
  call('hset', lock, heir, 1) -- first, because it is the only one that can fail, for lack of memory
  call('hdel', lock, holder)
end
if call('pttl', lock) < tonumber(ttl) then
  call('pexpire', lock, ttl)
end
return 1
