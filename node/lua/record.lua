-- Compare-and-set on the gate of the node record, with more fields beside it.
-- KEYS[1] the node record
-- ARGV[1] the gate as it must be, empty for none   ARGV[2] the new gate
-- ARGV[2i + 1], ARGV[2i + 2] field and value: a counter (c...) is only ever
-- raised, any other field is set
-- Returns the gate that stands afterwards: ARGV[2] when it was set.
local gate = redis.call('hget', KEYS[1], 'gate') or ''
if gate ~= ARGV[1] then
  return gate
end
redis.call('hset', KEYS[1], 'gate', ARGV[2])
for i = 3, #ARGV, 2 do
  local field, value = ARGV[i], ARGV[i + 1]
  if string.sub(field, 1, 1) ~= 'c' or
     (tonumber(redis.call('hget', KEYS[1], field) or 0) or 0) < tonumber(value) then
    redis.call('hset', KEYS[1], field, value)
  end
end
return ARGV[2]
