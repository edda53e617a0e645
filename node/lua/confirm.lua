-- Raises the counter to an attempt's token, where its vote is still held.
-- KEYS[1] the lock   KEYS[2] the node record
-- ARGV[1] holder   ARGV[2] the record's gate, as it must be
-- ARGV[3] the lock's counter, a field of the record   ARGV[4] token
-- ARGV[5] mode: x plain, w write, r read
-- Returns 1 the vote is held and the counter is the token or above, or 0 not held,
-- or of a reader: the counter was not below the token.
-- Errors: REDLOCK GATE <gate>.
--
-- The owner check is what makes the token sound: without it two attempts that
-- overlap can get one token (docs/safety.md, CE-2). Readers do overlap: a counter that
-- stands at the token already may have given it to another reader as its vote.
local record = redis.call('hmget', KEYS[2], 'gate', ARGV[3])
if (record[1] or '') ~= ARGV[2] then
  return redis.error_reply('REDLOCK GATE ' .. (record[1] or ''))
end
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return 0
end
if tonumber(record[2] or 0) < tonumber(ARGV[4]) then
  redis.call('hset', KEYS[2], ARGV[3], ARGV[4])
elseif ARGV[5] == 'r' then
  return 0
end
return 1
