-- The least an acquire can do in the layout that a lock must have to be shared
-- with Redisson: a hash with the holder's field, and a TTL.
-- KEYS[1] the lock   ARGV[1] holder   ARGV[2] TTL in ms
-- Returns 1 taken, or 0 held by another.
if redis.call('exists', KEYS[1]) == 1 then
  return 0
end
redis.call('hset', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
return 1
