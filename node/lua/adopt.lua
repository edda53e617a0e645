-- adopt.lua: gives the vote of one holder to another, who adopts its lease. Of several holders that
-- ask for the vote one gets it, because it is not there any more for the next.
--
-- KEYS[1] the lock   KEYS[2] the record
-- ARGV[1] the holder that adopts   ARGV[2] the holder that had the vote
-- ARGV[3] TTL in ms   ARGV[4] the state that the record must have
-- ARGV[5] the state that the record had when the other holder gave its vote away
-- ARGV[6] the lock's counter, a field of the record   ARGV[7] the proposed token
--
-- Returns the token, above 0, if the vote is the first holder's now, else 0: the other holder has no
-- vote, or the record has got another state since that vote, so that the vote may be one of older
-- data. The counter is raised as by an acquire. On a replay the token is the counter. The vote's TTL is
-- then the given one, or what was left if that is longer.
-- Errors: REDLOCK STATE <state>, the record has another state. A master that does not vote may have
-- its data from an older time, in which the vote was not yet adopted.
--         REDLOCK COUNTER <value>, the counter is no whole number from 0 to below 2^53

local call, try = redis.call, redis.pcall
local lock, record = KEYS[1], KEYS[2]
local heir, holder, ttl, state, voted, field, floor = unpack(ARGV)

local found = call('hmget', record, 'state', 'latest', field)
if (found[1] or '') ~= state then
  return redis.error_reply('REDLOCK STATE ' .. (found[1] or ''))
end
if state ~= voted then
  return 0
end
local latest, last = tonumber(found[2] or 0) or 0, found[3] or '0'
local token
if call('hexists', lock, heir) == 1 then
  token = tonumber(last)
else
  if call('hexists', lock, holder) == 0 then
    return 0
  end
  local stored, answer
-- @part token
  if not token then
    return redis.error_reply(answer)
  end
  -- In this order: a vote is only there behind a counter that was raised. The commands that come first
  -- are the ones that can fail, for lack of memory.
  call('hset', record, field, stored, 'latest', latest)
  call('hset', lock, heir, 1)
  call('hdel', lock, holder)
end
if call('pttl', lock) < tonumber(ttl) then
  call('pexpire', lock, ttl)
end
return token or redis.error_reply('REDLOCK COUNTER ' .. last)
