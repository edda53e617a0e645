-- Votes for one attempt, if the lock is free for it, it is its turn, and this
-- master may vote.
-- KEYS[1] the lock   KEYS[2] the node record   KEYS[3] the lock's queue
-- ARGV[1] the holder's field   ARGV[2] TTL in ms
-- ARGV[3] the record's gate, as it must be
-- ARGV[4] the lock's counter, a field of the record   ARGV[5] floor, proposed token
-- ARGV[6] mode: x plain, w write, r read
-- ARGV[7] the field of a write vote that a read vote may join, or empty
-- and only for one that waits:
-- ARGV[8] waiter   ARGV[9] ticket, 0 for none yet   ARGV[10] liveness in ms
-- ARGV[11] 1 to barge past the queue
--
-- Returns the counter, > 0: granted (also on a replay by the same holder),
-- or -1 - PTTL, <= 0: not now; 0 when that key has no TTL. One that waits is then
-- told four: that number, its ticket, how many are ahead of it, and whether the
-- holder is a stranger (Redisson), who wakes nobody's queue.
-- Errors: REDLOCK GATE <gate>, REDLOCK COUNTER <value>. Nothing is changed then.
--
-- The lock's layout (a hash at its name, field holder = count, TTL set in the same
-- script) is Redisson's. Integers only: a nil costs the client 21 allocations.
local lock, record, queue = KEYS[1], KEYS[2], KEYS[3]
local holder, mode = ARGV[1], ARGV[6]

local r = redis.call('hmget', record, 'gate', ARGV[4])
if (r[1] or '') ~= ARGV[3] then
  return redis.error_reply('REDLOCK GATE ' .. (r[1] or ''))
end

-- What nearly every call finds, in as few steps as there are: nobody holds it,
-- nobody waits, and the proposed token is good. The proposal is written as it came;
-- printing a number would cost as much as another command.
local floor, counter = tonumber(ARGV[5]), tonumber(r[2] or 0)
if mode == 'x' and counter and counter < floor and floor <= counter + 60000000 and
   redis.call('exists', lock, queue) == 0 then
  redis.call('hset', record, ARGV[4], ARGV[5])
  redis.call('hset', lock, holder, '1')
  redis.call('pexpire', lock, ARGV[2])
  return floor
end

local ttl, waiter = ARGV[2], ARGV[8]
local left = redis.call('pttl', lock)
local free = left == -2
if not free then
  if redis.call('hexists', lock, holder) == 1 then
    return tonumber(r[2])
  end
  if mode == 'r' then
    local held = redis.call('hget', lock, 'mode')
    free = held == 'read' or
      (held == 'write' and ARGV[7] ~= '' and redis.call('hexists', lock, ARGV[7]) == 1)
  end
end

-- The queue: a sorted set of waiters by ticket. A waiter is dead when its client's
-- sign of life is gone.
local function head()
  while true do
    local first = redis.call('zrange', queue, 0, 0)[1]
    if not first or redis.call('exists', 'redlock:alive:' .. string.sub(first, 1, 36)) == 1 then
      return first
    end
    redis.call('zrem', queue, first)
  end
end

local turn, ticket, ahead = true, 0, 0
if (waiter and not free) or redis.call('exists', queue) == 1 then
  if waiter then
    redis.call('set', 'redlock:alive:' .. string.sub(waiter, 1, 36), '1', 'px', ARGV[10])
    ticket = tonumber(ARGV[9])
    if ticket > 0 then
      redis.call('zadd', queue, ticket, waiter)
    else
      ticket = tonumber(redis.call('zscore', queue, waiter) or 0)
      if ticket == 0 then
        local now = redis.call('time')
        ticket = now[1] * 1000000 + now[2]
        redis.call('zadd', queue, ticket, waiter)
      end
    end
    redis.call('pexpire', queue, 60000)
    head()
    ahead = redis.call('zrank', queue, waiter)
    turn = ahead == 0 or ARGV[11] == '1'
    if not turn and mode == 'r' and free then
      -- Readers go in together, but not past a writer that waits.
      turn = true
      for _, other in ipairs(redis.call('zrange', queue, 0, ahead - 1)) do
        turn = turn and string.sub(other, 37) == '/r'
      end
    end
  else
    turn = ARGV[7] ~= '' or not head()
  end
end

if not (free and turn) then
  if free then left = 0 end
  if not waiter then
    return -1 - left
  end
  local stranger = 0
  if left ~= 0 then
    for _, field in ipairs(redis.call('hkeys', lock)) do
      -- Our holders' ids are UUIDs of version 8, Java's are of version 4.
      if field ~= 'mode' and string.sub(field, 15, 15) ~= '8' then stranger = 1 end
    end
  end
  return {-1 - left, ticket, ahead, stranger}
end

-- The counter never falls, and its next value is above all it gave before
-- (docs/safety.md, rule R2). Numbers stay below 2^53, where Lua's are exact.
if not counter or not (counter >= 0 and counter < 9007199254740990 and counter % 1 == 0) then -- so that NaN fails
  return redis.error_reply('REDLOCK COUNTER ' .. tostring(r[2]))
end
counter = counter + 1
if floor > counter + 60000000 then
  -- A proposal that leaps a minute is held against this master's clock and ignored
  -- when it is a minute ahead of it: a client with a wild clock must not push the
  -- tokens into the future. TIME is not asked for otherwise; it would cost a tenth
  -- of the throughput.
  local now = redis.call('time')
  if floor > now[1] * 1000000 + now[2] + 60000000 then
    floor = 0
  end
end
counter = math.max(counter, floor)
redis.call('hset', record, ARGV[4], counter)

if mode == 'r' then
  if left == -2 then
    redis.call('hset', lock, 'mode', 'read', holder, '1')
  else
    redis.call('hset', lock, holder, '1')
  end
  local prefix = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
  redis.call('set', prefix .. ':' .. holder .. ':rwlock_timeout:1', '1', 'px', ttl)
  if left < tonumber(ttl) then
    redis.call('pexpire', lock, ttl)
  end
else
  if mode == 'w' then
    redis.call('hset', lock, 'mode', 'write', holder, '1')
  else
    redis.call('hset', lock, holder, '1')
  end
  redis.call('pexpire', lock, ttl)
end

if waiter and redis.call('zrem', queue, waiter) == 1 and mode == 'r' then
  local first = head()
  if first and string.sub(first, 37) == '/r' then
    redis.call('publish', 'redlock:wake:' .. string.sub(first, 1, 36), lock)
  end
end
return counter
