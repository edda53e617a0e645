-- Part leave: places that are left, and rests that are lifted. It uses the parts names, queue and turn, and the call's state.

-- dequeue removes the place of a holder that was granted the lock, if it has one. Readers take the
-- lock together, so a reader that had its turn wakes the reader behind it. One that asks for the
-- first time had none.
local function dequeue(queue, lock, holder, mode, act)
  local had = call('zrem', queue, place_of(holder, mode)) == 1 or act ~= 'acquire'
  if had and mode == 'r' then
    local behind = head(queue, true)
    if behind and is_reader(behind) then
      wake(behind, lock)
    end
  end
end

-- leave removes the place of a holder without a vote. It says whether the place was the first. first is the
-- first place of all, if the caller has just read it.
local function leave(queue, holder, mode, first)
  first = first or call('zrange', queue, '0', '0')[1]
  local plain = holder .. '/' .. mode
  local handable = plain .. '/' .. state
  call('zrem', queue, plain, handable)
  return first == plain or first == handable
end

-- lift removes the lock's rest if that holder put it, and says whether it did; or it returns an error as text.
local function lift(queue, rester)
  local rest = rest_key(queue)
  local put = try('get', rest)
  local lifted = put
  if type(put) == 'string' and string.sub(put, -#rester - 1) == ' ' .. rester then
    lifted = try('del', rest)
  end
  return type(lifted) == 'table' and lifted.err or lifted == 1
end
