-- ARGV[2] member   ARGV[3] ticket   ARGV[4] TTL   ARGV[5] proposal   ARGV[6] token, 0 for none
-- Returns {0, 'STATE'} or {0, vote or -1 - PTTL, ahead (-1: gone), stranger, 0}.
local member, ticket, ttl, token = ARGV[2], ARGV[3], ARGV[4], ARGV[6]
if redis.call('hget', record, 'state') ~= state then return {0, 'STATE'} end
head()
local id = holder(member)
if redis.call('hexists', lock, id) == 1 then
  local raise = counter() < tonumber(token)
  if raise then redis.call('hset', record, counterField, token) end
  if mode(member) == 'r' then
    redis.call('set', readerKey(id), raise and token or told(member), 'px', ttl)
  end
  if mode(member) ~= 'r' or redis.call('pttl', lock) < tonumber(ttl) then
    redis.call('pexpire', lock, ttl)
  end
  return {0, told(member), ahead(ticket, member), 0, 0}
end
if not redis.call('zscore', queue, member) then return {0, -1 - left(), -1, stranger(), 0} end
redis.call('pexpire', queue, 60000)
local vote = settle(member, ttl, ARGV[5], false)
return {0, vote or -1 - left(), ahead(ticket, member), vote and 0 or stranger(), 0}
