-- Part contend: who is granted a lock that is held, queued for or resting, and what the others get as
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

-- is_deserted says whether the lock's holder was killed while it waited for other locks: its client's
-- sign of life is still there, and the client does not listen.
local function is_deserted(lock)
  for _, holder in ipairs(call('hkeys', lock)) do
    local given = call('get', sign_of_life(holder))
    if is_foreign(holder) or not given or listens(holder, given) then
      return false
    end
  end
  return true
end

-- has_turn says whether a waiter with that many others ahead of it, of which the first is waited for,
-- may take a free lock. Readers take the lock together, but a reader does not pass a writer that is
-- waited for.
local function has_turn(queue, ahead, mode, barges)
  if ahead == 0 or barges then
    return true
  elseif mode ~= 'r' then
    return false
  end
  for _, other in ipairs(call('zrange', queue, 0, ahead - 1)) do
    if not is_reader(other) then
      local given = call('get', sign_of_life(other))
      if given and listens(other, given) then
        return false
      end
    end
  end
  return true
end

-- line_up puts the place into the queue. It returns the ticket, how many are ahead, and whether
-- the place may take the lock if the lock is free. It does not enqueue the place if the lock is
-- free and nobody is ahead: that would add half to the cost of an acquire.
local function line_up(queue, place, ticket, mode, free, act)
  ticket = tonumber(ticket)
  if free and ticket > 0 and act ~= 'queue' then
    local first = call('zrange', queue, 0, 0, 'withscores')
    local at = tonumber(first[2])
    if not at or ticket < at or (ticket == at and place <= first[1]) then
      return ticket, 0, true
    end
  elseif free and act ~= 'queue' and call('exists', queue) == 0 then
    return ticket, 0, true
  end
  if ticket == 0 then
    local now = call('time')
    ticket = now[1] * 1000000 + now[2]
  end
  enqueue(queue, ticket, place)
  head(queue, true, place)
  local ahead = call('zrank', queue, place)
  return ticket, ahead, free and act ~= 'queue' and has_turn(queue, ahead, mode, act == 'barge')
end

-- contend returns the lock's PTTL if the caller may have the vote, else nil and the answer. last
-- is the value of the lock's counter. rest is false on a master on which no lock ever rested.
local function contend(lock, queue, rest, mode, holder, ticket, last, act)
  local left = call('pttl', lock)
  local free = left == -2
  if not free then
    if call('hexists', lock, holder) == 1 then -- a replay, or the holder was handed the vote
      local token = tonumber(last)
      if not token or token <= 0 then
        return nil, 'REDLOCK COUNTER ' .. last
      end
      if mode ~= 'r' and left >= 0 and left < tonumber(ttl) then
        -- The caller counts the vote from the sending of this op, and for the full TTL (H3 in
        -- docs/handoff.md).
        call('pexpire', lock, ttl)
      end
      return nil, token
    end
    free = mode == 'r' and can_join(lock)
    if act == 'oust' and mode == 'x' and is_deserted(lock) then
      call('del', lock)
      left, free = -2, true
    end
  end
  local rests, rest_left
  if rest then
    rests, rest_left = rest_of(rest, state)
  end
  if rests then
    free, left = false, left == -1 and left or math.max(left, rest_left)
  elseif rest_left then
    call('del', rest) -- its epoch is over for good, because the record has a later one
  end

  if ticket == '' then
    if free and ((mode == 'r' and join_write ~= '') or call('exists', queue) == 0 or not head(queue, true)) then
      return left
    end
    return nil, {free and -1 or -1 - left, rests or holder_of(lock)}
  end

  local place = place_of(holder, mode)
  if act == 'again' and not call('zscore', queue, place) then
    -- The place became a vote, and that is gone. A second place could become a second vote of
    -- one holder, with another token (H7 in docs/handoff.md).
    return nil, {free and -1 or -1 - left, holder_of(lock)}
  end
  local at, ahead, turn = line_up(queue, place, ticket, mode, free, act)
  if free and turn then
    return left
  end
  if free then
    if act ~= 'acquire' then
      -- The caller may have been woken for its turn, but another waiter is ahead of it. Wake
      -- that one, so that the wake is not lost.
      local first = head(queue, true, place)
      if first and first ~= place then
        wake(first, lock)
      end
    end
    return nil, {-1, at, ahead, 0}
  end
  return nil, {-1 - left, at, ahead, left ~= 0 and has_foreign_holder(lock) and 1 or 0}
end

