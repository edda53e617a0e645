-- inspect.lua: reads who has a lock on this master. It writes nothing.
--
-- KEYS[1] the lock   KEYS[2] the record   KEYS[3] the key of the announcement
-- ARGV[1] the state of a record whose master votes   ARGV[2] the lock's counter, a field of the record
--
-- Returns an array: 1 if the master votes, else 0; the counter, as text; the announcement, empty if
-- there is none; and then three values for each vote: the holder's field, its hold count as text, and
-- its PTTL. A reader's vote has the PTTL of its timeout key, and is left out when that has expired.

local call = redis.call
local lock, record, key = KEYS[1], KEYS[2], KEYS[3]

-- @part redisson

local found = call('hmget', record, 'state', ARGV[2])
local answer = {(found[1] or '') == ARGV[1] and 1 or 0, found[2] or '0', call('get', key) or ''}
local left = call('pttl', lock)
local fields = call('hgetall', lock)
local reading = call('hget', lock, 'mode') == 'read'
for i = 1, #fields, 2 do
  local field, count, lives = fields[i], fields[i + 1], left
  if field ~= 'mode' then
    if reading then
      lives = -2
      for hold = 1, tonumber(count) or 1 do
        lives = math.max(lives, call('pttl', timeout_key(lock, field, hold)))
      end
    end
    if lives ~= -2 then
      answer[#answer + 1], answer[#answer + 2], answer[#answer + 3] = field, count, lives
    end
  end
end
return answer
