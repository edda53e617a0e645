-- Part names: what the ids of holders and waiters consist of. A holder's id begins with its
-- client's id, which has 36 bytes. A waiter's id is its client's id, followed by /w or /r if it
-- waits for that side of a read-write lock.

local function client_of(id)
  return string.sub(id, 1, 36)
end

local function waiter_of(holder, mode)
  return client_of(holder) .. (mode == 'x' and '' or '/' .. mode)
end

local function is_reader(waiter)
  return string.sub(waiter, 37) == '/r'
end

-- is_foreign says whether the holder is Redisson's. The ids of this library's clients are UUIDs
-- of version 8, those of Redisson's clients are UUIDs of version 4.
local function is_foreign(holder)
  return string.sub(holder, 15, 15) ~= '8'
end

