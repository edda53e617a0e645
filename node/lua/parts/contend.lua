-- Part contend: who is granted a lock that is held, queued for or resting, and what the others get as
-- their answer. It uses the parts names, queue and seldom, and the call's record, state and ttl.

local function contains(list, item)
  for _, one in ipairs(list) do
    if one == item then
      return true
    end
  end
  return false
end

-- has_foreign says whether one of the fields of a lock is a holder of Redisson's.
local function has_foreign(fields)
  for _, field in ipairs(fields) do
    if field ~= 'mode' and is_foreign(field) then
      return true
    end
  end
  return false
end

-- contend returns the lock's PTTL if the caller may have the vote, else nil and the answer.
local function contend(lock, queue, act, mode, holder, word, nth)
  -- What an act is, in one place.
  local first_ask, takes, places = act == 'acquire', act ~= 'queue', act ~= 'again'
  local passes, ousts, write_vote = act == 'barge', act == 'oust' and mode == 'x', act == 'join' and word
  local queues = word ~= '' and not write_vote

  local left, fields
  if slow.handed == lock and mode == 'x' then -- by the release ahead of this acquire
    left, fields = tonumber(liveness), {slow.heir}
  else
    left = call('pttl', lock)
  end
  local free = left == -2
  if not free then
    local has
    if mode == 'x' then
      fields = fields or call('hkeys', lock)
      has = contains(fields, holder)
    else
      has = call('hexists', lock, holder) == 1
    end
    if has then -- a replay, or the holder was handed the vote
      local last = counter_of(nth)
      local token = tonumber(last)
      if not token or token <= 0 then
        return nil, 'REDLOCK COUNTER ' .. last
      end
      if mode ~= 'r' and left >= 0 and left < tonumber(ttl) then
        -- The caller counts the vote from the sending of this op, and for the full TTL (H3 in
        -- docs/internals/handoff.md).
        call('pexpire', lock, ttl)
        slow.handed = nil
      end
      return nil, token
    end
    free = mode == 'r' and seldom().can_join(lock, write_vote)
    if ousts and seldom().is_deserted(fields) then
      call('del', lock)
      left, free, slow.handed = -2, true, nil
    end
  end
  local rester, rest_left
  if found[3] then
    rester, rest_left = seldom().rest_of(rest_key(queue), state)
  end
  if rester then
    free, left = false, left == -1 and left or math.max(left, rest_left)
  elseif rest_left then
    call('del', rest_key(queue)) -- its epoch is over for good, because the record has a later one
  end

  if not queues then
    if free and (write_vote or not head(queue, true)) then
      return left
    end
    return nil, {free and -1 or -1 - left, rester or seldom().holder_of(lock)}
  end

  local place = place_of(holder, mode)
  if not places and not call('zscore', queue, place) then
    -- The place became a vote, and that is gone. A second place could become a second vote of
    -- one holder, with another token (H7 in docs/internals/handoff.md).
    return nil, {free and -1 or -1 - left, seldom().holder_of(lock)}
  end
  if free and takes and seldom().heads(queue, tonumber(word), place) then
    return left -- without a place: to enqueue it first would add half to the cost of an acquire
  end
  local ticket = enqueue(queue, word, place)
  local first = (free or not first_ask) and head(queue, true, place) -- who was killed does not count as ahead
  local ahead = call('zrank', queue, place)
  if free and takes and (passes or seldom().has_turn(queue, ahead, mode)) then
    return left
  end
  if free and not first_ask and first ~= place then
    -- The caller may have been woken for its turn, but another waiter is ahead of it. Wake
    -- that one, so that the wake is not lost.
    wake(first, lock)
  end
  return nil, {free and -1 or -1 - left, ticket, ahead, not free and left ~= 0 and has_foreign(fields or call('hkeys', lock)) and 1 or 0}
end

