-- extend.lua: gives votes that are still there a new TTL, and a new hold count if the caller
-- names one. It never creates a vote.
--
-- KEYS[1] the record   KEYS[1 + i] a lock
-- ARGV[1] TTL in ms
-- ARGV[2] the record state of a voting master   ARGV[3] how that of a quarantined one begins
-- and then three words for each lock:
--   holder   the holder's field
--   mode     x plain, w write, r read
--   count    the hold count to set, 0 to leave it. The script sets it instead of adding to
--            it, so that a replay changes nothing.
--
-- Returns one integer for each lock: 1 if the vote was there and is extended, 0 if that holder
-- has no vote, or the key is of another type.
-- Errors: REDLOCK STATE <state>, the record has another state.

local call = redis.call
local HEADER, STRIDE = 3, 3 -- words of ARGV before the locks, and of a lock
local ttl = ARGV[1]

-- @part record_state
-- @part redisson

local refused = record_state_error(KEYS[1], ARGV[2], ARGV[3])
if refused then
  return refused
end
local intact = {}
for i = 1, #KEYS - 1 do
  local lock, at = KEYS[1 + i], HEADER + STRIDE * (i - 1)
  local holder, mode, count = unpack(ARGV, at + 1, at + STRIDE)
  local held = redis.pcall('hexists', lock, holder)
  if type(held) == 'table' then
    if string.sub(held.err, 1, 9) ~= 'WRONGTYPE' then
      return held
    end
    held = 0 -- a key of another type has no vote, and costs the other locks of the call nothing
  end
  if held == 1 and mode == 'r' then
    held = call('pexpire', timeout_key(lock, holder, 1), ttl)
  end
  if held == 1 then
    -- A key with votes of several holders lives as long as the longest: readers beside each other, or a writer that reads too. Who
    -- has it alone has no use for what another has left.
    -- PEXPIRE goes first: a master whose memory is full refuses an HSET that is the first write of a script.
    local alone = mode == 'x' or mode == 'w' and call('hlen', lock) == 2
    local left = alone and 0 or call('pttl', lock)
    if left < tonumber(ttl) then
      call('pexpire', lock, ttl)
    elseif count ~= '0' then
      call('pexpire', lock, left + 1) -- not a fraction of a millisecond sooner than it was
    end
    if count ~= '0' then
      call('hset', lock, holder, count)
    end
  end
  intact[i] = held
end
return intact
