-- The least a release can do. HDEL removes the key with its last field.
-- KEYS[1] the lock   ARGV[1] holder
-- Returns 1 given back, or 0 not held by this holder.
return redis.call('hdel', KEYS[1], ARGV[1])
