-- confirm.lua: raises the counter to an attempt's token, where its vote is still held.
--
-- KEYS[1] the lock   KEYS[2] the record
-- ARGV[1] holder   ARGV[2] the gate that the record must have
-- ARGV[3] the lock's counter, a field of the record   ARGV[4] token
-- ARGV[5] mode: x plain, w write, r read
--
-- Returns 1 the vote is held and the counter is the token or above, or 0 the vote is not
-- held, or, of a reader: the counter was not below the token.
-- Errors: REDLOCK GATE <gate>.

local call = redis.call
local lock, record = KEYS[1], KEYS[2]
local holder, gate, counter, token, mode = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local found = call('hmget', record, 'gate', counter)
if (found[1] or '') ~= gate then
  return redis.error_reply('REDLOCK GATE ' .. (found[1] or ''))
end
-- The owner check is what makes the token sound. Without it two attempts that overlap can
-- get one token (docs/safety.md, CE-2).
if call('hexists', lock, holder) == 0 then
  return 0
end
if tonumber(found[2] or 0) < tonumber(token) then
  call('hset', record, counter, token)
elseif mode == 'r' then
  -- Readers do overlap. A counter that stands at the token may have given it to another
  -- reader as its vote.
  return 0
end
return 1
