-- Part contend: who is granted a lock that is held or queued for, and what the others get as
-- their answer.

-- holder_of returns a holder of the lock: * for readers, empty if nobody holds it.
local function holder_of(lock)
  if call('hget', lock, 'mode') == 'read' then
    return '*'
  end
  for _, field in ipairs(call('hkeys', lock)) do
    if field ~= 'mode' then
      return (string.gsub(field, ':write$', ''))
    end
  end
  return ''
end

local function has_foreign_holder(lock)
  for _, field in ipairs(call('hkeys', lock)) do
    if field ~= 'mode' and is_foreign(field) then
      return true
    end
  end
  return false
end

-- can_join says whether a reader may join those that hold the lock: other readers, or the
-- write vote of its own owner.
local function can_join(lock)
  local mode = call('hget', lock, 'mode')
  return mode == 'read' or (mode == 'write' and join_write ~= '' and call('hexists', lock, join_write) == 1)
end

-- has_turn says whether a waiter with that many others ahead of it may take a free lock.
-- Readers take the lock together, but a reader does not pass a waiting writer.
local function has_turn(queue, ahead, mode, barges)
  if ahead == 0 or barges then
    return true
  elseif mode ~= 'r' then
    return false
  end
  for _, other in ipairs(call('zrange', queue, 0, ahead - 1)) do
    if not is_reader(other) then
      return false
    end
  end
  return true
end

-- line_up puts the waiter into the queue. It returns the waiter's ticket, how many are ahead of
-- it, and whether it may take the lock if the lock is free. It does not enqueue the waiter if
-- the lock is free and nobody else queues, or if the lock is free and the waiter is at the head
-- with the ticket that it presents. Enqueuing it first would add half to the cost of its
-- acquire.
local function line_up(queue, waiter, ticket, mode, free, barges)
  ticket = tonumber(ticket)
  if free and ticket > 0 then
    local first = call('zrange', queue, 0, 0, 'withscores')
    if first[1] == waiter and tonumber(first[2]) == ticket then
      return ticket, 0, true
    end
  end
  if free and call('exists', queue) == 0 then
    return ticket, 0, true
  end
  if ticket == 0 then
    -- The waiter wants a new place. If it has a place from an earlier attempt, that attempt's
    -- dequeue is still on its way.
    local now = call('time')
    ticket = now[1] * 1000000 + now[2]
  end
  enqueue(queue, ticket, waiter)
  head(queue)
  local ahead = call('zrank', queue, waiter)
  return ticket, ahead, has_turn(queue, ahead, mode, barges)
end

-- contend returns the lock's PTTL if the caller may have the vote, else nil and the answer. last
-- is the value of the lock's counter.
local function contend(lock, queue, mode, holder, ticket, last, barges)
  local left = call('pttl', lock)
  local free = left == -2
  if not free then
    if call('hexists', lock, holder) == 1 then -- a replay
      local token = tonumber(last)
      return nil, token and token > 0 and token or 'REDLOCK COUNTER ' .. last
    end
    free = mode == 'r' and can_join(lock)
  end

  if ticket == '' then
    local turn = (mode == 'r' and join_write ~= '') or call('exists', queue) == 0 or not head(queue)
    if free and turn then
      return left
    end
    return nil, {free and -1 or -1 - left, holder_of(lock)}
  end

  local place, ahead, turn = line_up(queue, waiter_of(holder, mode), ticket, mode, free, barges)
  if free and turn then
    return left
  end
  if free then
    if ticket ~= '0' then
      -- The caller may have been woken for its turn, but another waiter is ahead of it. Wake
      -- that one, so that the wake is not lost.
      local first = head(queue)
      if first then
        wake(first, lock)
      end
    end
    return nil, {-1, place, ahead, 0}
  end
  return nil, {-1 - left, place, ahead, left ~= 0 and has_foreign_holder(lock) and 1 or 0}
end

