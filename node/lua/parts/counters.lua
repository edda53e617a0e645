      -- Part counters: reads the record once for all ops of the call. It is a piece of votes.lua.
      found = try('hmget', record, 'state', 'latest', 'rests', unpack(ARGV, HEADER + 1, HEADER + raises))
      if found.err then
        refusal = found.err
      elseif (found[1] or '') ~= state then
        refusal = 'REDLOCK STATE ' .. (found[1] or '')
      end
      latest = tonumber(found[2] or 0) or 0
      known = latest
