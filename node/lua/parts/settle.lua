-- Part settle: what is to be done when a vote was taken back.

-- longest_hold is how long the reader's vote lives in ms, 0 when the reader died. Redisson's
-- readers have a timeout key a hold, each with its own lease.
local function longest_hold(lock, reader)
  local left = 0
  for hold = 1, tonumber(call('hget', lock, reader)) or 1 do
    left = math.max(left, call('pttl', timeout_key(lock, reader, hold)))
  end
  return left
end

-- after_reader puts the lock in order behind a reader that left. The hash must not outlive
-- the last reader, or a reader that dies keeps writers out for the TTL of one that has left.
-- Returns whether the lock is free, and whether the head of the queue is to be woken.
local function after_reader(lock, holder)
  call('del', timeout_key(lock, holder, 1))
  local longest, foreign = 0, false
  for _, field in ipairs(call('hkeys', lock)) do
    if string.sub(field, -6) == ':write' then
      return false, false
    elseif field ~= 'mode' then
      local left = longest_hold(lock, field)
      if left == 0 then
        call('hdel', lock, field)
      else
        foreign = foreign or is_foreign(field)
      end
      longest = math.max(longest, left)
    end
  end
  if longest == 0 then
    call('del', lock)
    return true, true
  end
  -- The head of the queue sleeps as long as it was told, so it must learn of an end that is
  -- much nearer now. And a reader of Redisson's may have joined after the head last looked:
  -- then the head must learn that Redisson's channel will tell the end.
  local wakes = foreign or call('pttl', lock) - longest >= 1000
  call('pexpire', lock, longest)
  return false, wakes
end

-- after_writer puts the lock in order behind a writer that left. A writer that also reads
-- reads on.
local function after_writer(lock, channel)
  if call('hlen', lock) > 1 then
    call('hset', lock, 'mode', 'read')
  else
    call('del', lock)
  end
  call('publish', channel, '1') -- wakes all of Redisson's: readers go in together
end

local function settle(lock, queue, mode, holder, ticket)
  local channel = (mode == 'x' and 'redisson_lock__channel:' or 'redisson_rwlock:') .. braced(lock)
  local free, wakes = true, true
  if mode == 'r' then
    free, wakes = after_reader(lock, holder)
  elseif mode == 'w' then
    after_writer(lock, channel)
  end
  if free then
    -- Redisson loses a 1 that comes between its second try and its sleep, and sleeps to the
    -- end of the TTL. A 0 stays until it is taken.
    call('publish', channel, '0')
  end
  local waiter
  if ticket ~= '' then
    waiter = waiter_of(holder, mode)
    enqueue(queue, ticket, waiter)
  end
  if wakes and call('exists', queue) == 1 then
    local first = head(queue)
    if first and first ~= waiter then -- the caller need not be woken
      wake(first, lock)
    end
  end
end

