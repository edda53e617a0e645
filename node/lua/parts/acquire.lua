-- Part acquire: one acquire. Part contend decides who may have a lock that is held or queued
-- for.

-- acquire returns the answer and, if it grants, the value to store as the lock's counter. last
-- is the counter's value before.
local function acquire(lock, queue, mode, holder, ticket, last, floor, barges)
  local left, answer = -2, nil -- PTTL of a lock that nobody holds
  local contended = call('exists', lock, queue) > 0
  if contended then
    contention = contention or make_contention()
    left, answer = contention.contend(lock, queue, mode, holder, ticket, last, barges)
    if not left then
      return answer
    end
  end
  local token, stored = next_token(last, floor)
  if not token then
    return 'REDLOCK COUNTER ' .. last
  end
  local failed, stays = grant(lock, holder, mode, '1', ttl, left)
  if failed then
    return (stays and 'REDLOCK UNDO ' or '') .. failed
  end
  if contended and ticket ~= '' then
    pcall(contention.dequeue, queue, lock, holder, mode) -- an error is ignored: the vote is given already
  end
  return token, stored
end

