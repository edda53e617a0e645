-- present: remember the largest token.
-- KEYS[1] fence (string, decimal)
-- ARGV[1] token (decimal, 1 .. 2^53-1)
-- Returns what the fence holds now: the token if it is accepted, the larger one if not.
--
-- Compared as numbers, exact below 2^53; stored and returned as the text that came in, since tostring rounds (docs/safety.md A30).
-- A fence that holds no number is returned as it is and left alone: the caller names it.
local seen = redis.call('GET', KEYS[1]) or '0'
if not string.find(seen, '^%d+$') then
  return seen
end
if tonumber(ARGV[1]) >= tonumber(seen) then
  seen = ARGV[1]
  redis.call('SET', KEYS[1], seen) -- also when equal: SET takes away a TTL that somebody gave the fence
end
return seen
