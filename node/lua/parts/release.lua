-- Part release: the only place where a holder's vote is removed.
-- The script does not read the vote first: HDEL removes the field of this holder and no other.
-- The hash of a plain lock has one field, so HDEL removes the whole key.

local function release(lock, queue, mode, holder, ticket)
  local gone = try('hdel', lock, holder)
  if gone == 0 then
    return 0
  elseif gone ~= 1 then
    return gone.err
  end
  if mode == 'x' and ticket == '' and try('exists', queue) == 0 then
    try('publish', 'redisson_lock__channel:' .. braced(lock), '0')
  else
    -- An error from here on is ignored, because the vote is gone already. For example, a key
    -- of another type may be in the queue's place; then there is no waiter to wake.
    contention = contention or make_contention()
    pcall(contention.settle, lock, queue, mode, holder, ticket)
  end
  return 1
end

