-- inspect.lua: reads who has a lock on this master, and who waits for it. It writes nothing.
--
-- KEYS[1] the lock   KEYS[2] the record   KEYS[3] the key of the announcement   KEYS[4] the queue
-- KEYS[5] the lock's rest
-- ARGV[1] the state of a record whose master votes   ARGV[2] the lock's counter, a field of the record
--
-- Returns an array of
--   1 if the master votes, else 0
--   the counter, as text
--   the announcement, empty if there is none
--   the mode of the lock: read, write, or empty
--   four values for each vote: the holder's field, its hold count as text, its PTTL, and the label of
--     its client. A reader's vote has the PTTL of its timeout key, and is left out when that has expired.
--   three values for each of the first 64 places in the queue, in their order: the place, its ticket
--     as text, and the label of its client. A place whose client gives no sign of life is left out.
--   three values if the lock rests: the holder that put the rest, its PTTL, and the label of its client.

local call = redis.call
local lock, record, key, queue, rest = unpack(KEYS)

-- @part redisson
-- @part names
-- @part rest

-- The record's name is the prefix of the namespace, redlock:node, and in a cluster the slot's tag. These
-- keys have the same prefix and the same tag.
local prefix, tag = string.match(record, '^(.-)redlock:node(.*)$')

local function of_client(kind, id)
  return call('get', prefix .. 'redlock:' .. kind .. tag .. ':' .. client_of(id))
end

local found = call('hmget', record, 'state', ARGV[2])
local mode = call('hget', lock, 'mode') or ''
local votes = {}
local left = call('pttl', lock)
local fields = call('hgetall', lock)
for i = 1, #fields, 2 do
  local field, count, lives = fields[i], fields[i + 1], left
  if field ~= 'mode' then
    if (mode == 'read' or mode == 'write') and string.sub(field, -6) ~= ':write' then
      lives = -2
      for hold = 1, math.min(tonumber(count) or 1, MOST_HOLDS) do
        lives = math.max(lives, call('pttl', timeout_key(lock, field, hold)))
      end
    end
    if lives ~= -2 then
      local n = #votes
      votes[n + 1], votes[n + 2], votes[n + 3], votes[n + 4] = field, count, lives, of_client('owner', field) or ''
    end
  end
end
local places = {}
local members = call('zrange', queue, 0, 63, 'withscores')
for i = 1, #members, 2 do
  if of_client('alive', members[i]) then
    local n = #places
    places[n + 1], places[n + 2], places[n + 3] = members[i], members[i + 1], of_client('owner', members[i]) or ''
  end
end
local rests, rest_left = rest_of(rest, ARGV[1])
return {(found[1] or '') == ARGV[1] and 1 or 0, found[2] or '0', call('get', key) or '', mode, votes, places,
  rests and {rests, rest_left, of_client('owner', rests) or ''} or {}}
