-- Part names: a holder's id begins with its client's, which has 36 bytes. A waiter is a client
-- and the side of the lock that it waits for: the client's id for a plain lock, with /w or /r
-- behind it for a read-write lock.

local function client_of(id)
  return string.sub(id, 1, 36)
end

local function waiter_of(holder, mode)
  return client_of(holder) .. (mode == 'x' and '' or '/' .. mode)
end

local function is_reader(waiter)
  return string.sub(waiter, 37) == '/r'
end

-- Ids of our clients are UUIDs of version 8, those of Redisson's are of version 4.
local function is_foreign(holder)
  return string.sub(holder, 15, 15) ~= '8'
end

