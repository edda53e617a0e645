  -- Piece raise of votes.lua: raises the counters of those acquires of the call whose lock is free, does not rest, and is not queued
  -- for, with one HSET, because most acquires are such.
  --
  -- No other op of the call takes such a lock before its acquire does: the acquires of a call are of different locks, and a hand is
  -- of a lock that is held now.
  if found and not refusal then
    local set, words, reach, nth = {KEYS[#KEYS]}, 1, latest, 0
    for i = 1, #KEYS - 1, 2 do
      local act = ARGV[ops + 2 * i - 1]
      if act == 'hand' then
        nth = nth + 1
      elseif act ~= 'release' and act ~= 'leave' then
        nth = nth + 1
        -- An op behind another of the same lock takes the slow way: the first may free the lock.
        if idle or not found[3] and act ~= 'queue' and act ~= 'again' and KEYS[i] ~= KEYS[i - 2] and try('exists', KEYS[i], KEYS[i + 1]) == 0 then
          local token, stored, beyond = next_token(found[3 + nth] or '0', ARGV[HEADER + raises + nth], reach)
          if token then
            set[words + 1], set[words + 2], words = ARGV[HEADER + nth], stored, words + 2
            found[3 + nth], reach, stale = token, beyond, true
          end
        end
      end
    end
    if stale then
      if reach ~= latest then
        set[words + 1], set[words + 2], words = 'latest', reach, words + 2
      end
      local done = try('hset', unpack(set, 1, words))
      if type(done) == 'table' then
        refusal = done.err
      end
      latest = reach
    end
  end
