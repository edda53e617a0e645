    -- Part release: the only place where a holder's vote is removed. It is a piece of the loop in
    -- votes.lua, and sets answer.
    -- It does not read the vote first: HDEL removes the field of this holder and no other. The
    -- hash of a plain lock has one field, so HDEL removes the whole key.
    local gone = try('hdel', lock, holder)
    answer = gone
    -- The rest is lifted behind the vote: the holder could put a rest again while it has its vote.
    local lifted = 0
    if ticket ~= '' then
      contention = contention or make_contention()
      local rest = contention.rest_key(queue)
      local put = try('get', rest)
      if type(put) == 'table' then
        lifted = put
      elseif put and string.sub(put, -#ticket - 1) == ' ' .. ticket then
        lifted = try('del', rest)
      end
    end
    if gone ~= 0 and gone ~= 1 then
      answer = gone.err
    elseif type(lifted) == 'table' then
      answer = lifted.err
    elseif (gone == 0 or mode == 'x') and try('exists', queue) == 0 then
      if gone == 1 then
        -- The name is that of braced in part redisson, which would have to be created.
        try('publish', string.find(lock, '{', 1, true) and 'redisson_lock__channel:' .. lock
          or 'redisson_lock__channel:{' .. lock .. '}', '0')
      end
    else
      if act == 'hand' and gone == 1 and not found then
-- @part counters
      end
      -- An error from here on is ignored, because the vote is gone already. For example, a key
      -- of another type may be in the queue's place; then there is no waiter to wake.
      contention = contention or make_contention()
      local settled, heir, stamp = pcall(contention.settle, lock, queue, mode, holder, act, gone, found, found and not refusal, lifted == 1)
      if settled and heir then
-- @part hand
      end
    end
