-- Part release: the only place where a caller's vote is taken back.
-- The hash of a plain lock has one field, so HDEL removes the key with it. HDEL cannot touch
-- another holder's vote, so no vote is read in order to delete it.

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
    -- Once the vote is gone it is gone, whatever comes of the rest: a key of another type in
    -- the queue's place, say, holds nobody to wake.
    contention = contention or make_contention()
    pcall(contention.settle, lock, queue, mode, holder, ticket)
  end
  return 1
end

