-- Part readers: what the release of a read or a write vote changes for those that still hold the lock. It uses
-- call and part redisson.

-- longest_hold returns how long the reader's vote lives, in ms: 0 if its timeout keys have
-- expired. A reader of Redisson's has a timeout key for each hold, each with its own TTL.
local function longest_hold(lock, reader)
  local left, holds = 0, is_foreign(reader) and tonumber(call('hget', lock, reader)) or 1
  for hold = 1, math.min(holds, MOST_HOLDS) do
    left = math.max(left, call('pttl', timeout_key(lock, reader, hold)))
  end
  return left
end

-- The hash may outlive its readers by less than NEAR, in ms, so that a release need not look at all
-- of them. It looks at SOME, which HRANDFIELD chooses, and at all if there are no more.
local NEAR, SOME = 1000, 8

-- after_reader adjusts the lock after a reader has released it. The hash must not outlive the
-- readers that remain: if they died, writers would wait for the TTL of the reader that released.
-- It returns whether the lock is free, and whether the head of the queue must be woken.
local function after_reader(lock, queue, holder)
  local own = timeout_key(lock, holder, 1)
  local mine, near = call('pttl', own), call('pttl', lock) - NEAR
  call('del', own)
  local fields = call('hlen', lock)
  if call('hget', lock, 'mode') == 'write' then
    return false, false
  elseif fields <= 1 then
    call('del', lock)
    return true, true
  end
  local longest, foreign = 0, false
  -- look removes readers that have died: others may keep the hash for hours.
  local function look(at)
    for _, field in ipairs(at) do
      if field ~= 'mode' then
        foreign = foreign or is_foreign(field)
        local lives = longest_hold(lock, field)
        if lives == 0 then
          call('hdel', lock, field)
        end
        longest = math.max(longest, lives)
      end
    end
  end
  look(call('hrandfield', lock, SOME))
  -- If this reader ended sooner, another one lives nearly as long as the hash, which stays as it is.
  local last, all = mine > near, fields <= SOME
  if last and longest <= near and not all then
    look(call('hkeys', lock))
    all = true
  end
  if all and longest == 0 then
    call('del', lock) -- the hash may have outlived them
    return true, true
  elseif last and longest <= near then
    -- The head of the queue sleeps for the TTL that it last got.
    call('pexpire', lock, longest)
    return false, true
  end
  -- The head is also woken if a reader of Redisson's holds the lock: that reader may have joined after
  -- the head last looked, and Redisson announces its release on its own channel only.
  return false, foreign
end

-- after_writer adjusts the lock after a writer has released it. If the writer also holds read
-- votes, it keeps them, and the hash lives as long as they do. It returns whether the lock is free
-- to be handed. It is not if these have expired: by a clock that jumped, perhaps (H16).
local function after_writer(lock, channel)
  local free = call('hlen', lock) <= 1
  local longest = 0
  for _, field in ipairs(free and {} or call('hkeys', lock)) do
    longest = field == 'mode' and longest or math.max(longest, longest_hold(lock, field))
  end
  if longest == 0 then
    call('del', lock)
  else
    call('hset', lock, 'mode', 'read')
    call('pexpire', lock, longest)
  end
  call('publish', channel, '1') -- wakes all waiters of Redisson's, because readers take the lock together
  return free
end

