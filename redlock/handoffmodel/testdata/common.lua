-- A prototype of README.md, one folder up, for TestReplay_prototypeScripts_agree. It is written to be
-- read and not to be fast, and takes one op a call. The product's scripts replace it.
--
-- KEYS[1] the lock   KEYS[2] the queue, but for the record state   KEYS[3] the record
-- ARGV[1] the record state
local lock, record, state = KEYS[1], KEYS[3], ARGV[1]
local queue = KEYS[2] .. ':' .. state
local counterField = 'c7'

-- A member of the queue: <client>:<number>/<mode><short TTL>.
local function client(member) return string.sub(member, 1, 36) end
local function holder(member) return string.match(member, '^([^/]+)/') end
local function mode(member) return string.match(member, '/(%a)') end
local function shortTTL(member) return string.match(member, '/%a(%d+)$') end

local function sign(member) return redis.call('get', 'redlock:alive:' .. client(member)) end
local function channel(member) return 'redlock:wake:' .. client(member) end
local function readerKey(id) return '{' .. lock .. '}:' .. id .. ':rwlock_timeout:1' end
local function counter() return tonumber(redis.call('hget', record, counterField) or 0) end
local function left() return math.max(redis.call('pttl', lock), 0) end
local function stranger() return redis.call('hexists', lock, 'java') end

-- Whether the votes that are there let an attempt of that mode have one.
local function compatible(m)
  return redis.call('exists', lock) == 0 or (m == 'r' and redis.call('hget', lock, 'mode') == 'read')
end

-- Drops places at the head whose client has no sign of life, and returns the first that is left.
local function head()
  while true do
    local first = redis.call('zrange', queue, 0, 0)[1]
    if not first or sign(first) then return first end
    redis.call('zrem', queue, first)
  end
end

local function ahead(ticket, member)
  local n, all = 0, redis.call('zrange', queue, 0, -1, 'withscores')
  for i = 1, #all, 2 do
    local t = tonumber(all[i + 1])
    if t < tonumber(ticket) or (t == tonumber(ticket) and all[i] < member) then n = n + 1 end
  end
  return n
end

-- Whether masters wait for the client of a place (H19). An empty message only probes.
local function awaited(member)
  local s = sign(member)
  return s and (string.sub(s, -1) == 'w' or redis.call('publish', channel(member), '') > 0)
end

-- Gives the vote to a place, or to one that takes none, and returns its number.
local function give(member, ttl, proposal)
  local number, id = math.max(counter() + 1, tonumber(proposal)), holder(member)
  redis.call('hset', record, counterField, number)
  redis.call('hset', lock, id, 1)
  if mode(member) == 'r' then
    redis.call('hset', lock, 'mode', 'read')
    redis.call('set', readerKey(id), number, 'px', ttl)
  end
  if mode(member) ~= 'r' or redis.call('pttl', lock) < tonumber(ttl) then
    redis.call('pexpire', lock, ttl)
  end
  redis.call('zrem', queue, member)
  return number
end

-- What is said of a vote that is found: the counter, but to a reader its vote as it was stored (H15).
local function told(member)
  if mode(member) == 'r' then return tonumber(redis.call('get', readerKey(holder(member)))) end
  return counter()
end

local function turn(member, line)
  for i, other in ipairs(line) do
    if other == member then return true end
    if not (mode(member) == 'r' and mode(other) == 'r') and (i > 16 or awaited(other)) then return false end
  end
  return true
end

local function wakeReaders(line, caller)
  local woken = {}
  for _, p in ipairs(line) do
    if mode(p) ~= 'r' and awaited(p) then return end
    if mode(p) == 'r' and sign(p) and p ~= caller and not woken[client(p)] then
      woken[client(p)] = true
      redis.call('publish', channel(p), lock)
    end
  end
end

local function next(line, caller)
  for i = 1, math.min(#line, 16) do
    if line[i] == caller or awaited(line[i]) then return line[i] end
  end
  return line[1]
end

-- Gives a free lock to the next in the queue, and returns the caller's vote if it has it. hand: the op set
-- the lock free itself, and nobody of Redisson's waits (H16).
local function settle(caller, ttl, proposal, hand)
  head()
  local line = redis.call('zrange', queue, 0, -1)
  if caller and compatible(mode(caller)) and turn(caller, line) then return give(caller, ttl, proposal) end
  local p = next(line, caller)
  if not p or not compatible(mode(p)) then return nil end
  if mode(p) == 'r' then
    wakeReaders(line, caller)
  elseif hand then
    local stamp, short = string.match(sign(p), '%d+'), shortTTL(p)
    local number = give(p, short, proposal)
    redis.call('publish', channel(p), table.concat({string.match(holder(p), ':(%d+)$'), number, stamp, short, lock}, '\0'))
  else
    redis.call('publish', channel(p), lock)
  end
end
