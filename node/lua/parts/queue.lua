-- Part queue: a lock's queue, which is a sorted set of waiters by ticket. A client's sign of life
-- is a key with a TTL. Once it has expired, the client's waiters count as dead.

-- In a cluster the record's name is redlock:node and the slot's tag. sign_of_life appends the
-- same tag, so that its key is in the same slot.
local function sign_of_life(waiter)
  return 'redlock:alive' .. string.sub(record, 13) .. ':' .. client_of(waiter)
end

-- head removes dead waiters from the front of the queue. It returns the first live waiter, or nil.
local function head(queue)
  while true do
    local first = call('zrange', queue, 0, 0)[1]
    if not first or call('exists', sign_of_life(first)) == 1 then
      return first
    end
    call('zrem', queue, first)
  end
end

local function wake(waiter, lock)
  call('publish', 'redlock:wake:' .. client_of(waiter), lock)
end

-- enqueue puts the waiter at the place of the ticket, also if it has another place.
local function enqueue(queue, ticket, waiter)
  call('set', sign_of_life(waiter), '1', 'px', liveness)
  call('zadd', queue, ticket, waiter)
  local lives = try('pexpire', queue, 60000)
  if type(lives) == 'table' then -- no key may be left without a TTL
    call('zrem', queue, waiter)
    error(lives)
  end
end

-- dequeue removes a waiter that was granted the lock. Readers take the lock together, so a
-- reader wakes the reader behind it.
local function dequeue(queue, lock, holder, mode)
  if call('zrem', queue, waiter_of(holder, mode)) == 1 and mode == 'r' then
    local behind = head(queue)
    if behind and is_reader(behind) then
      wake(behind, lock)
    end
  end
end

