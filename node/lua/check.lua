-- Tries every command that the other scripts call, and HGETALL, on a key of its own, so that a
-- missing right is found when a connection is made and not half-way through a
-- vote: a key between HSET and PEXPIRE has no TTL (docs/safety.md A29).
-- KEYS[1] a key that nobody else uses   ARGV[1] a channel likewise
-- Returns the names of the commands that the user may not run. Other failures, as
-- of a master that is out of memory, are not its business.
local key, channel = KEYS[1], ARGV[1]
local missing = {}
for _, call in ipairs({
  {'time'}, {'exists', key}, {'pttl', key}, {'pexpire', key, 1}, {'publish', channel, ''},
  {'hset', key, 'f', 1}, {'hget', key, 'f'}, {'hmget', key, 'f'}, {'hexists', key, 'f'}, {'hkeys', key},
  {'hlen', key}, {'hgetall', key}, {'hdel', key, 'f'},
  {'zadd', key, 1, 'm'}, {'zscore', key, 'm'}, {'zrank', key, 'm'}, {'zrange', key, 0, 0}, {'zrem', key, 'm'},
  {'set', key, 1, 'px', 1}, {'del', key}, -- last: they take away what any right too few has left
}) do
  local reply = redis.pcall(unpack(call))
  local err = type(reply) == 'table' and reply.err
  -- The words of Redis 6.2 and 7.0, and of 7.2 and later.
  if err and (string.find(err, "can't run this command", 1, true) or string.find(err, 'permissions', 1, true)) then
    missing[#missing + 1] = call[1]
  end
end
return missing
