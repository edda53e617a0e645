-- announce.lua: keeps what the holder of a lock says about itself, or takes it back.
--
-- KEYS[1] the lock   KEYS[2] the key of the announcement
-- ARGV[1] the holder's field   ARGV[2] TTL in ms of the announcement
-- ARGV[3] the announcement, which begins with the holder's field and a NUL; empty: take it back
-- ARGV[4] the channel of those who observe the lock
--
-- Returns 1, or 0 if it changed nothing: the holder has no vote on this master, or there is no
-- announcement of its own to take back. So an announcement that arrives late does not replace that
-- of the next holder.
--
-- Publishes the announcement, if it is another than before. A refusal to publish is ignored: those
-- who observe look from time to time.

local call = redis.call
local lock, key = KEYS[1], KEYS[2]
local holder, ttl, text, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local before = call('get', key)
if text == '' then
  if not before or string.sub(before, 1, #holder + 1) ~= holder .. '\0' then
    return 0
  end
  call('del', key)
else
  if call('hexists', lock, holder) == 0 then
    return 0
  end
  call('set', key, text, 'px', ttl)
end
if before ~= text then
  redis.pcall('publish', channel, text)
end
return 1
