-- Part rest: a lock's rest. It is a key of its own, which keeps the lock from everybody until the key's
-- TTL is over, whatever becomes of the vote of the holder that put it there. Its value is the epoch in
-- which it was put, a blank, and the holder.

--
-- The record's field rests is there once any lock rested on this master. While it is not, votes.lua
-- looks at no rests: to name a key for each op would cost a twentieth of all of it.
-- Invariant: there is no rest without the field. Who puts a rest sets it first. If an operator deletes
-- the record, the master has forgotten its rests, as one that lost its data.

-- epoch_of returns the epoch of a voting state. The incarnation is not part of it: a master that
-- restarts with its data still has its rests.
local function epoch_of(state)
  return string.match(state, '^[^|]*|[^|]*') or ''
end

-- rest_of returns the holder that put the rest, and the rest's PTTL. It returns nil if there is no rest
-- in the epoch of state, and then whether there is one of another epoch.
local function rest_of(rest, state)
  local put = call('get', rest)
  if not put then
    return nil, false
  end
  local epoch = epoch_of(state) .. ' '
  if string.sub(put, 1, #epoch) == epoch then
    return string.sub(put, #epoch + 1), call('pttl', rest)
  end
  return nil, true
end

