-- Part queue: a lock's queue is a sorted set of waiters by ticket. A waiter is dead when its
-- client's sign of life, a key with a TTL, is gone.

-- The sign of life is called as the record is, redlock:node, which in a cluster has the
-- slot's tag behind it.
local function sign_of_life(waiter)
  return 'redlock:alive' .. string.sub(record, 13) .. ':' .. client_of(waiter)
end

-- head removes dead waiters from the front, and returns the first that lives, or nil.
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

-- enqueue gives the waiter a place, or moves it to the ticket's.
local function enqueue(queue, ticket, waiter)
  call('set', sign_of_life(waiter), '1', 'px', liveness)
  call('zadd', queue, ticket, waiter)
  local lives = try('pexpire', queue, 60000)
  if type(lives) == 'table' then -- no key may be left without a TTL
    call('zrem', queue, waiter)
    error(lives)
  end
end

-- dequeue takes a waiter that was granted out of its place. Readers go in together, so a
-- reader wakes the reader behind it.
local function dequeue(queue, lock, holder, mode)
  if call('zrem', queue, waiter_of(holder, mode)) == 1 and mode == 'r' then
    local behind = head(queue)
    if behind and is_reader(behind) then
      wake(behind, lock)
    end
  end
end

