  -- Piece look of votes.lua: what a call with several ops finds, before anything is written.
  local acquires, keys, n = 0, {}, 0
  idle = true
  for i = 1, #KEYS - 1, 2 do
    local act = ARGV[ops + 2 * i - 1]
    if act ~= 'hand' and act ~= 'release' and act ~= 'leave' then
      acquires, n, keys[n + 1] = acquires + 1, n + 1, KEYS[i]
      -- The lock is not free for a queue or an again, whatever it is. Nor, mostly, behind another op of the same lock.
      idle = idle and act ~= 'queue' and act ~= 'again' and KEYS[i] ~= KEYS[i - 2]
    end
    n, keys[n + 1] = n + 1, KEYS[i + 1]
  end
  if acquires > 0 then
    found = try('hmget', KEYS[#KEYS], 'state', 'latest', 'rests', unpack(ARGV, HEADER + 1, HEADER + raises))
    refusal = found.err or (found[1] or '') ~= ARGV[2] and 'REDLOCK STATE ' .. (found[1] or '') or nil
    latest = tonumber(found[2] or 0) or 0
    idle = idle and not found[3]
  end
  idle = idle and try('exists', unpack(keys)) == 0
