-- record.lua: compare-and-set on fields of the node record.
--
-- KEYS[1] the node record
-- ARGV[1] n   ARGV[2i], ARGV[2i + 1] for i = 1 to n: a field, and the value that it must
-- have, empty if the field must be absent
-- and then field, value ... to set. A counter, whose name is c and a number, is only raised.
-- An empty value removes the field.
--
-- Returns {1, state} if the fields were set, else {0, state}. state is the record's state
-- after the call.
local n = tonumber(ARGV[1])
for i = 2, 2 * n, 2 do
  if (redis.call('hget', KEYS[1], ARGV[i]) or '') ~= ARGV[i + 1] then
    return {0, redis.call('hget', KEYS[1], 'state') or ''}
  end
end
for i = 2 * n + 2, #ARGV, 2 do
  local field, value = ARGV[i], ARGV[i + 1]
  if value == '' then
    redis.call('hdel', KEYS[1], field)
  elseif not string.find(field, '^c%d') or
     (tonumber(redis.call('hget', KEYS[1], field) or 0) or 0) < tonumber(value) then
    redis.call('hset', KEYS[1], field, value)
  end
end
return {1, redis.call('hget', KEYS[1], 'state') or ''}
