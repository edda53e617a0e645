-- Part acquire: an acquire of a lock that is not simply free. It uses contend, raise, grant and seldom.

-- acquire returns the answer of the op, the nth that may raise a counter. It raises an error only before it has
-- written a vote.
local function acquire(lock, queue, act, mode, holder, word, nth)
  local left, token, failed, answer = -2, found[3 + nth], nil, nil
  local contended = type(token) ~= 'number' -- else piece raise has raised the counter: the lock is free and not queued for
  if contended then
    left, answer = contend(lock, queue, act, mode, holder, word, nth)
    if not left then
      return answer
    end
    token, failed = raise(nth)
  end
  slow.handed = nil
  failed = failed or grant(lock, holder, mode, '1', ttl, left, mode == 'r' and timeout_key(lock, holder, 1))
  if failed then
    return failed
  end
  if contended and act ~= 'join' and word ~= '' then
    pcall(seldom().dequeue, queue, lock, holder, mode, act) -- an error is ignored: the vote is given already
  end
  return token
end

