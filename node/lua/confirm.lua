-- confirm.lua: confirms a grant, if the attempt still holds its vote: raises the lock's counter to the
-- attempt's token, and has the lock rest, if it is to rest.
--
-- KEYS[1] the lock   KEYS[2] the record   KEYS[3] the lock's rest
-- ARGV[1] holder   ARGV[2] the state that the record must have
-- ARGV[3] the lock's counter, a field of the record   ARGV[4] token
-- ARGV[5] mode: x plain, w write, r read   ARGV[6] TTL of the rest in ms, 0 for none
--
-- Returns 1 if the vote is held, the counter is now the token or above, and the lock rests if it is to.
-- Returns 0 if the vote is not held. For a reader it also returns 0 if the counter was not below the
-- token.
-- Errors: REDLOCK STATE <state>, the record has another state.

local call = redis.call
local lock, record, rest = KEYS[1], KEYS[2], KEYS[3]
local holder, state, counter, token, mode, lasts = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

-- @part rest

local found = call('hmget', record, 'state', counter)
if (found[1] or '') ~= state then
  return redis.error_reply('REDLOCK STATE ' .. (found[1] or ''))
end
-- This check makes the token unique: without it, two attempts that overlap can get the same
-- token (docs/safety.md, CE-2). It also keeps a confirm that arrives late from putting a rest.
if call('hexists', lock, holder) == 0 then
  return 0
end
if lasts ~= '0' then
  call('hset', record, 'rests', 1)
  call('set', rest, epoch_of(state) .. ' ' .. holder, 'px', lasts)
end
if tonumber(found[2] or 0) < tonumber(token) then
  call('hset', record, counter, token)
elseif mode == 'r' then
  -- Readers hold votes at the same time. If the counter is at the token already, another
  -- reader may have got that token with its vote.
  return 0
end
return 1
