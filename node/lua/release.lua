-- Takes one holder's vote back and wakes who is next.
-- KEYS[1] the lock   KEYS[2] the lock's queue
-- ARGV[1] the holder's field   ARGV[2] mode: x plain, w write, r read
-- ARGV[3] Redisson's channel for this lock
-- Returns 1 released, or 0 not held by this holder (also on a replay).
--
-- A plain lock's hash has one field, so HDEL removes the key with it; no GET and
-- compare is needed, and another holder's field cannot be touched.
local lock, queue, holder, mode = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
if redis.call('hdel', lock, holder) == 0 then
  return 0
end
local free = true
if mode == 'r' then
  local prefix = (string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}') .. ':'
  redis.call('del', prefix .. holder .. ':rwlock_timeout:1')
  -- The others' votes live as long as their timeout keys: one of ours has one, Java's
  -- one a hold, each with its own lease. The hash must not outlive the last of them,
  -- or a reader that dies keeps writers out for the TTL of one that has left.
  local others, java = 0, false
  for _, field in ipairs(redis.call('hkeys', lock)) do
    if string.sub(field, -6) == ':write' then
      return 1
    elseif field ~= 'mode' then
      local left = 0
      for i = 1, tonumber(redis.call('hget', lock, field)) or 1 do
        left = math.max(left, redis.call('pttl', prefix .. field .. ':rwlock_timeout:' .. i))
      end
      if left == 0 then
        redis.call('hdel', lock, field) -- a reader that died
      else
        java = java or string.sub(field, 15, 15) ~= '8' -- see acquire.lua
      end
      others = math.max(others, left)
    end
  end
  if others > 0 then
    redis.call('pexpire', lock, others)
    if not java then
      return 1
    end
    -- It may have joined after the next in line last looked, who must learn that it
    -- is Java's channel that will tell the end.
    free = false
  else
    redis.call('del', lock)
  end
elseif mode == 'w' then
  if redis.call('hlen', lock) > 1 then
    redis.call('hset', lock, 'mode', 'read') -- its holder reads on
  else
    redis.call('del', lock)
  end
end
if free then
  if mode == 'w' then
    redis.call('publish', ARGV[3], '1') -- all who sleep: readers go in together
  end
  -- Java loses a 1 that comes between its second try and its sleep, and sleeps to the
  -- TTL; a 0 stays until it is taken.
  redis.call('publish', ARGV[3], '0')
end
while redis.call('exists', queue) == 1 do
  -- pcall: the vote is gone, and a key of another type there is nobody to wake.
  local first = redis.pcall('zrange', queue, 0, 0)[1]
  if not first then
    return 1
  end
  local client = string.sub(first, 1, 36)
  if redis.call('exists', 'redlock:alive:' .. client) == 1 then
    redis.call('publish', 'redlock:wake:' .. client, lock)
    return 1
  end
  redis.call('zrem', queue, first)
end
return 1
