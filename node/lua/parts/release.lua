    -- Piece release of votes.lua: the only place where a holder's vote is removed.
    --
    -- In: lock, queue, mode, holder and word, the holder whose rest is lifted, of the op; idle. Out:
    --   gone    1 if there was a vote, else 0   answer  gone, or an error as text
    --   more    whether something is left to do that part settle does
    --   first   the first place in the queue, if it was looked at
    --   ticket  its ticket, if it was taken out of the queue: a hand is going to hand it the lock, or puts it back
    --
    -- It does not read the vote first: HDEL removes the field of this holder and no other. The
    -- hash of a plain lock has one field, so HDEL removes the whole key.
    local gone, more, first, ticket = try('hdel', lock, holder), false, nil, nil
    if slow then
      slow.handed = nil
    end
    answer = gone
    if gone ~= 0 and gone ~= 1 then
      answer = gone.err
      -- A key of another type holds no vote: the holder's place and its rest are given back as if the key were not there.
      if string.sub(answer, 1, 9) == 'WRONGTYPE' then
        gone, more = 0, true
      end
    elseif word ~= '' or (gone == 1 and mode ~= 'x') then
      more = true
    else
      if not idle and act == 'hand' and gone == 1 then
        first, ticket = unpack(try('zpopmin', queue)) -- nil too for a key of another type, in which nobody waits
      elseif not idle then
        first = try('zrange', queue, '0', '0')[1]
      end
      more = first
      if not first and gone == 1 then
        -- The name is that of braced in part redisson, which would have to be created.
        try('publish', string.find(lock, '{', 1, true) and 'redisson_lock__channel:' .. lock
          or 'redisson_lock__channel:{' .. lock .. '}', '0')
      end
    end
