  -- Piece lone of votes.lua: what the pieces look and raise do, for a call with one op. It creates no tables, which half of a lone
  -- op's time in this script would go to. A release has nothing to look for: it looks at the queue when the vote is gone.
  local act = ARGV[ops + 1]
  if act ~= 'hand' and act ~= 'release' and act ~= 'leave' then
    found = try('hmget', KEYS[3], 'state', 'latest', 'rests', ARGV[HEADER + 1])
    refusal = found.err or (found[1] or '') ~= ARGV[2] and 'REDLOCK STATE ' .. (found[1] or '') or nil
    latest = tonumber(found[2] or 0) or 0
    if not (refusal or found[3]) and act ~= 'queue' and act ~= 'again' and try('exists', KEYS[1], KEYS[2]) == 0 then
      local token, stored, reach = next_token(found[4] or '0', ARGV[HEADER + 2], latest)
      if token then
        local set
        if reach == latest then
          set = try('hset', KEYS[3], ARGV[HEADER + 1], stored)
        else
          set = try('hset', KEYS[3], ARGV[HEADER + 1], stored, 'latest', reach)
        end
        if type(set) == 'table' then
          refusal = set.err
        else
          found[4], latest, stale = token, reach, true
        end
      end
    end
  end
