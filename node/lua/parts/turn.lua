-- Part turn: whose turn it is where a lock is free, or held by readers, or by one that was killed. It uses the parts names and queue.

local function is_reader(place)
  return string.find(string.sub(place, 37), '/r', 1, true) ~= nil
end

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

-- can_join says whether a reader may join those that hold the lock: other readers, or write_vote, the
-- field of its own owner's write vote.
local function can_join(lock, write_vote)
  local mode = call('hget', lock, 'mode')
  return mode == 'read' or (mode == 'write' and write_vote and call('hexists', lock, write_vote) == 1)
end

-- is_deserted says whether the lock's holder was killed while it waited for other locks: its client's
-- sign of life is still there, and the client does not listen.
local function is_deserted(fields)
  for _, holder in ipairs(fields) do
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
local function has_turn(queue, ahead, mode)
  if ahead == 0 then
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

-- heads says whether a place with that ticket is ahead of all that are in the queue.
local function heads(queue, ticket, place)
  local first = call('zrange', queue, '0', '0', 'withscores')
  local other = tonumber(first[2])
  return not other or (ticket > 0 and (ticket < other or (ticket == other and place <= first[1])))
end
