-- adopt.lua: gives the vote of one holder to another, who adopts its lease. Of several holders that
-- ask for the vote one gets it, because it is not there any more for the next.
--
-- KEYS[1] the lock   KEYS[2] the record
-- ARGV[1] the holder that adopts   ARGV[2] the holder that had the vote
-- ARGV[3] TTL in ms   ARGV[4] the state that the record must have
-- ARGV[5] the state that the record had when the other holder gave its vote away
-- ARGV[6] the lock's counter, a field of the record   ARGV[7] the proposed token
-- ARGV[8] Redisson's channel of the lock, if the two holders are of one client, else empty
--
-- Returns the token, above 0, if the vote is the first holder's now, else 0: the other holder has no
-- vote, or the record has got another state since that vote, so that the vote may be one of older
-- data, or somebody hears the channel: Redisson's waiters are told of a release, and there is none if one holder of
-- a client takes over from another. The counter is raised as by an acquire. The vote's TTL is the given one, whatever the other holder
-- had left: who has the vote owes its release for no longer than that. On a replay the token is the
-- counter, and the TTL the given one, or what was left if that is longer.
-- Errors: REDLOCK STATE <state>, the record has another state. A master that does not vote may have
-- its data from an older time, in which the vote was not yet adopted.
--         REDLOCK COUNTER <value>, the counter is no whole number from 0 to below 2^53

local call, try = redis.call, redis.pcall
local lock, record = KEYS[1], KEYS[2]
local heir, holder, ttl, state, voted, counter, proposed, channel = unpack(ARGV)

-- @part token
-- @part grant

local found = call('hmget', record, 'state', 'latest', counter)
if (found[1] or '') ~= state then
  return redis.error_reply('REDLOCK STATE ' .. (found[1] or ''))
end
if state ~= voted then
  return 0
end
local latest, last = tonumber(found[2] or 0) or 0, found[3] or '0'
if call('hexists', lock, heir) == 1 then -- a replay
  if call('pttl', lock) < tonumber(ttl) then
    call('pexpire', lock, ttl)
  end
  return tonumber(last) or redis.error_reply('REDLOCK COUNTER ' .. last)
end
if call('hexists', lock, holder) == 0 then
  return 0
end
local heard = channel ~= '' and try('pubsub', 'numsub', channel) -- a user without the right to ask passes it on
if heard and not heard.err and heard[2] ~= 0 then
  return 0
end
-- In the order of every grant: the counter, the vote. The giver's vote goes last, so that the lock is never free.
local token, stored, reach = next_token(last, proposed, latest)
if not token then
  return redis.error_reply(stored)
end
call('hset', record, counter, stored, 'latest', reach)
local failed = grant(lock, heir, 'x', 1, ttl, -2, false) -- as if nobody held it: so the giver's TTL does not last
if failed then
  return redis.error_reply(failed)
end
call('hdel', lock, holder)
return token
