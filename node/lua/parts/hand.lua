        -- Part hand: gives the vote to heir, a place at the head of the queue, and tells its client.
        -- It is a piece of the loop in votes.lua. If it cannot, it wakes the client instead.
        -- In this order: the counter, the vote, the message. So a message tells of a vote that
        -- stands behind a counter that was raised, and has ended no sooner than its TTL after the
        -- stamp.
        local released, field = answer, ARGV[HEADER + nth]
        local floor, pending = ARGV[HEADER + raises + nth], nil
        for k = 2, words, 2 do
          if raised[k] == field then
            pending = k + 1 -- an acquire of this call is going to raise it
          end
        end
        local last = pending and raised[pending] or handed and handed[field] or found[3 + nth] or '0'
        local token, stored
-- @part token
        answer = released -- part token may have set it
        local set = token and try('hset', record, field, stored, 'latest', latest)
        local given = false
        if type(set) == 'number' then
          known = latest
          handed = handed or {}
          handed[field] = stored
          if pending then
            raised[pending] = stored -- the HSET that ends the call must not lower it
          end
          do
            local holder, mode = string.match(heir, '^([^/]+)/(%a)')
            local ttl, left, count, timeout = ARGV[2], -2, '1', false
-- @part grant
            given = not failed or stays
            if not failed then
              try('zrem', queue, heir)
              try('publish', contention.wake_channel(heir),
                table.concat({lock, holder, string.format('%.0f', token), stamp, ttl}, '\0'))
            end
          end
        end
        if not given then
          pcall(contention.wake, heir, lock)
        end
