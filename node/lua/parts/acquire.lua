      -- Part acquire: one acquire. It is a piece of the loop in votes.lua, and sets answer. Part
      -- contend decides who may have a lock that is held, queued for, or resting.
      local last = handed and handed[ARGV[HEADER + nth]] or found[3 + nth] or '0' -- the lock's counter
      local floor = ARGV[HEADER + raises + nth] -- the proposed token
      local rests = found[3]
      local contended = rests or act == 'again' or act == 'queue' or try('exists', lock, queue) ~= 0 -- or an error, which contend meets too
      if contended or mode == 'r' then
        contention = contention or make_contention()
      end
      local left = -2 -- the lock's PTTL; nil if the caller may not have the vote
      if contended then
        local done
        done, left, answer = pcall(contention.contend, lock, queue, rests and contention.rest_key(queue), mode, holder, ticket, last, act)
        if not done then -- left is the error: a table or, before Redis 7.0, maybe text
          answer = type(left) == 'table' and left.err or left
          left = nil
        end
      end
      local token, stored
      if left then
-- @part token
      end
      if token then
        local count, timeout = '1', mode == 'r' and contention.timeout_key(lock, holder, 1)
-- @part grant
        if failed then
          answer = (stays and 'REDLOCK UNDO ' or '') .. failed
        else
          answer = token
          raised[words + 1], raised[words + 2] = ARGV[HEADER + nth], stored
          words = words + 2
          if contended and ticket ~= '' then
            pcall(contention.dequeue, queue, lock, holder, mode, act) -- an error is ignored: the vote is given already
          end
        end
      end
