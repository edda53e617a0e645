        -- Part token: the fencing token of a grant. It is a piece of votes.lua and adopt.lua. It reads
        -- last, the lock's counter, and floor, the caller's proposal. It sets token, a number, and stored,
        -- the value to store as the counter. If that fails both are nil, and it sets answer.
        -- A counter never falls, and each token is above all tokens that the counter gave before
        -- (docs/safety.md, rule R2). Numbers stay below 2^53, up to which Lua's are exact.
        local counter, proposed = tonumber(last), tonumber(floor)
        if counter and counter >= 0 and counter < 9007199254740990 and counter % 1 == 0 then -- so that NaN fails
          token = counter + 1
          stored = token
          if proposed > token and proposed > latest then
            -- The proposal is beyond latest, so this master compares it with its clock. It ignores
            -- a proposal that is more than a minute ahead: clients with wrong clocks must not push
            -- the tokens into the future, neither at once nor in many steps. The record keeps
            -- latest, because asking for TIME in each call would cost a tenth of the throughput.
            local now = try('time')
            if now.err then
              token = nil
              answer = now.err
            else
              latest = now[1] * 1000000 + now[2] + 60000000
            end
          end
          if token and proposed > token and proposed <= latest then
            token, stored = proposed, floor -- as text, because printing a number costs as much as a command
          end
        else
          answer = 'REDLOCK COUNTER ' .. last
        end
