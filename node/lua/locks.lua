-- locks.lua: lists locks on this master, one step of SCAN at a time. It writes nothing.
--
-- KEYS[1] the record, which the script does not read: its name says which namespace's locks are
--         asked for, and in a Redis Cluster where they are
-- ARGV[1] the cursor: 0 to begin, and then what the call before returned   ARGV[2] how the names begin
--
-- Returns an array of the next cursor, 0 at the end, and the names. A step looks at about 256 keys.
-- A lock is a hash with a holder, or a rest. SCAN may give a name more than once.
-- An error of a key is ignored: it is no lock then, or none that the user may read.

local call, try = redis.call, redis.pcall
local namespace, prefix = string.match(KEYS[1], '^(.-)redlock:node'), ARGV[2]

-- name_of returns the name of the lock that key would be, or nil, and whether key is that lock's rest.
local function name_of(key)
  if string.sub(key, 1, #namespace) ~= namespace then
    return nil
  end
  local name, rests = string.sub(key, #namespace + 1), false
  local resting = string.match(name, '^redlock:rest:(.*)$')
  if resting then
    name, rests = string.match(resting, '^{(.*)}$') or string.sub(resting, 2), true -- {name}, or a colon and a name with braces
  elseif string.sub(name, 1, 8) == 'redlock:' then
    return nil
  end
  if string.sub(name, 1, #prefix) == prefix then
    return name, rests
  end
end

-- Of a hash of more than a thousand fields only a few are looked at: others wait for this master. It can be a lock
-- only if readers have it. The right to hrandfield is one that only read locks need.
local function is_lock(key)
  local size, fields = try('hlen', key), {}
  if type(size) ~= 'number' then
    return false
  elseif size <= 1000 then
    fields = call('hkeys', key)
  elseif call('hget', key, 'mode') == 'read' then
    fields = try('hrandfield', key, 8)
  end
  for _, field in ipairs(fields) do
    if string.find(field, '^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x:') then
      return true
    end
  end
  return false
end

local found = try('scan', ARGV[1], 'count', 256)
if found.err then
  return redis.error_reply(found.err .. ' (scan)') -- Redis 7.0 does not name the command
end
local names = {}
for _, key in ipairs(found[2]) do
  local name, rests = name_of(key)
  if name and (rests or is_lock(key)) then
    names[#names + 1] = name
  end
end
return {found[1], names}
