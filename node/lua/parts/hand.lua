-- Part hand: a release that gives the vote to the head of the queue. It uses raise, grant, wake and the call's
-- stamp TTLs.

-- hand gives the vote to heir, a place at the head of the queue of a free lock, and tells its client, whose
-- sign of life is given. If it cannot, it wakes the client instead. The op is the nth that may raise a counter. ticket is
-- there if the place has been taken out of the queue already.
--
-- The message is last: so it tells of a vote that stands behind a counter that was raised, and that has
-- ended no sooner than its TTL after the stamp. It names the record's state: a replica passes the message on, and
-- a client must not take it for one of that server.
local function hand(heir, given, lock, queue, nth, ticket)
  local holder, mode = string.match(heir, '^([^/]+)/(%a)')
  local token, _, text = raise(nth)
  if not token or grant(lock, holder, mode, '1', liveness, -2, false) then
    if ticket then
      put(queue, ticket, heir)
    end
    wake(heir, lock)
    return
  end
  slow.handed, slow.heir = lock, holder
  if not ticket then
    try('zrem', queue, heir)
  end
  try('publish', wake_channel(heir), lock .. '\0' .. holder .. '\0' .. text .. '\0' .. given .. '\0' .. liveness .. '\0' .. state)
end

