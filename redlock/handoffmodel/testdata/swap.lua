-- ARGV[2] liveness   ARGV[3] stamp and wait mark   ARGV[4] proposal
-- ARGV[5] out: member, or empty   ARGV[6] hand
-- ARGV[7] in: member, or empty   ARGV[8] ticket   ARGV[9] TTL   ARGV[10] kind
-- Returns {out}, {out, 'STATE'} or {out, vote or -1 - PTTL, ahead (-1: no place), stranger, found}.
local out, member, ticket, kind = ARGV[5], ARGV[7], ARGV[8], ARGV[10]
local removed, hand = 0, false
if out ~= '' then
  if redis.call('hdel', lock, holder(out)) == 1 then
    removed, hand = 1, ARGV[6] == '1' and mode(out) ~= 'r'
    if mode(out) == 'r' then
      redis.call('del', readerKey(holder(out)))
      if redis.call('hlen', lock) == 1 then redis.call('del', lock) end -- the field mode
    end
    hand = redis.call('publish', 'redisson_lock__channel:{' .. lock .. '}', '0') == 0 and hand
  end
  removed = removed + 2 * redis.call('zrem', queue, out)
end
if redis.call('hget', record, 'state') ~= state then return {removed, 'STATE'} end
if member == '' then
  if removed > 0 then settle(nil, nil, ARGV[4], hand) end
  return {removed}
end
if redis.call('hexists', lock, holder(member)) == 1 then
  return {removed, told(member), kind == 't' and 0 or ahead(ticket, member), 0, 1}
end
if kind == 't' then
  if compatible(mode(member)) and not head() then return {removed, give(member, ARGV[9], ARGV[4]), ahead(ticket, member), 0, 0} end
  return {removed, -1 - left(), -1, stranger(), 0}
end
redis.call('set', 'redlock:alive:' .. client(member), ARGV[3], 'px', ARGV[2])
redis.call('zadd', queue, ticket, member)
redis.call('pexpire', queue, 60000)
local vote = settle(member, ARGV[9], ARGV[4], hand)
return {removed, vote or -1 - left(), ahead(ticket, member), vote and 0 or stranger(), 0}
