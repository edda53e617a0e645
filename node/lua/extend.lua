-- Gives votes that are still there a new TTL, and their hold count where one is
-- named. Never creates one.
-- KEYS[1] the node record   KEYS[1 + i] a lock
-- ARGV[1] TTL in ms
-- ARGV[2] the gate of a voting master   ARGV[3] how a recovering one's begins
-- ARGV[3i + 1], ARGV[3i + 2], ARGV[3i + 3] the lock's holder's field, mode, and
-- hold count to set (0 leaves it; set, not incremented, so that a replay is one)
-- Returns one integer a lock: 1 intact and extended, 0 not held by that holder.
-- Errors: REDLOCK GATE <gate>.
local ttl = ARGV[1]
local gate = redis.call('hget', KEYS[1], 'gate') or ''
if gate ~= ARGV[2] and string.sub(gate, 1, #ARGV[3]) ~= ARGV[3] then
  return redis.error_reply('REDLOCK GATE ' .. gate)
end
local intact = {}
for i = 1, #KEYS - 1 do
  local lock, holder, mode, count = KEYS[1 + i], ARGV[3 * i + 1], ARGV[3 * i + 2], ARGV[3 * i + 3]
  local held = redis.call('hexists', lock, holder)
  if held == 1 and mode == 'r' then
    -- A reader's vote lives as long as its own timeout key.
    local prefix = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
    held = redis.call('pexpire', prefix .. ':' .. holder .. ':rwlock_timeout:1', ttl)
  end
  if held == 1 then
    if count ~= '0' then
      redis.call('hset', lock, holder, count)
    end
    if mode ~= 'r' or redis.call('pttl', lock) < tonumber(ttl) then
      redis.call('pexpire', lock, ttl)
    end
  end
  intact[i] = held
end
return intact
