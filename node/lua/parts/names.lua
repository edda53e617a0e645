-- Part names: what the ids of holders and the members of queues consist of. A holder's id begins
-- with its client's id, which has 36 bytes.
--
-- A member of a queue is a place, <holder's field>/<mode>. If the master may hand the place the
-- lock, the record state in which the place was taken is behind that, after another /. A client
-- of an earlier build has its id as the only place, with /w or /r for a side of a read-write
-- lock. Its place is woken, and never handed anything.

local function client_of(id)
  return string.sub(id, 1, 36)
end

-- place_of returns the member for an attempt. It may be handed the lock if it is exclusive, and
-- if its TTL is not shorter than that of a handed vote, which would outlive its lease else.
local function place_of(holder, mode)
  if mode ~= 'r' and tonumber(ttl) >= tonumber(liveness) then
    return holder .. '/' .. mode .. '/' .. state
  end
  return holder .. '/' .. mode
end

-- rest_key returns the name of the lock's rest.
local function rest_key(queue)
  return (string.gsub(queue, 'redlock:queue:', 'redlock:rest:', 1))
end

-- state_of returns the record state in which the place was taken, or nil if it must not be
-- handed the lock.
local function state_of(place)
  return string.match(place, '^[^/]+/%a/(.*)$')
end

-- is_foreign says whether the holder is Redisson's. The ids of this library's clients are UUIDs
-- of version 8, those of Redisson's clients are UUIDs of version 4.
local function is_foreign(holder)
  return string.sub(holder, 15, 15) ~= '8'
end

