-- Part settle: what follows the release of a vote: keys that depend on it, and who is woken or handed the
-- lock. It uses the parts redisson, names, queue, seldom and hand.

-- settle follows the release of a holder that had gone votes, 0 or 1. If it had none, settle removes the holder's
-- place; who has a vote has no place. It hands the lock to the head of the queue, or wakes the head, if the lock
-- is free for it. lifted says that this op has lifted the rest. first is the first place in the queue, if
-- that was looked at, and ticket its ticket, if it was taken out. The op is the nth that may raise a counter.
--
-- Only a lock that this very op has set free is handed (H16 in docs/internals/handoff.md). One that was
-- free before may have been set free by a clock that jumped, and a message has no TIME with it. A lock
-- that rests is not handed either: the head is woken, and is told how long the lock rests.
local function settle(lock, queue, act, mode, holder, gone, lifted, first, ticket, nth)
  local hands, tells = act == 'hand' and gone == 1, act ~= 'leave'
  local free, wakes, heard, other = false, gone == 1 or lifted, 0, nil
  local channel = (mode == 'x' and 'redisson_lock__channel:' or 'redisson_rwlock:') .. braced(lock)
  if gone == 1 then
    if mode == 'r' then
      free, wakes = seldom().after_reader(lock, queue, holder)
    else
      free = mode == 'x' or seldom().after_writer(lock, channel)
    end
    if mode == 'x' and ticket then
      other = channel -- to be asked who hears it, together with who hears the head's
    elseif free or mode == 'w' then
      -- Redisson loses a 1 that arrives between its second try and its sleep, and then sleeps to
      -- the end of the TTL. It keeps a 0 until one of its waiters takes it.
      heard = call('publish', channel, '0')
    end
  elseif seldom().leave(queue, holder, mode, first) then
    first, wakes = nil, call('exists', lock) == 0 or call('hget', lock, 'mode') == 'read'
  end
  if not (wakes and tells) then
    return
  end
  if hands then
    read_record()
  end
  local fits = found and not refusal
  local heir, given, others = head(queue, fits, nil, first, other)
  if other and others ~= 0 then
    heard = call('publish', other, '0')
  end
  ticket = heir == first and ticket
  if not heir then
    return
  elseif hands and fits and free and mode ~= 'r' and heard == 0 and state_of(heir) and not (found[3] and call('exists', rest_key(queue)) == 1) then
    hand(heir, given, lock, queue, nth, ticket)
  else
    if ticket then
      put(queue, ticket, heir)
    end
    wake(heir, lock)
  end
end

