-- guard: run one command only while the fence equals the token.
-- KEYS[1] fence (string, decimal)
-- KEYS[2] key of the command
-- ARGV[1] token (decimal, 1 .. 2^53-1)
-- ARGV[2] name of the command
-- ARGV[3..] its arguments after the key
-- Returns {fence} if refused, {fence, reply} if the command ran. An error of the command is the script's error, and nothing is written.
local seen = redis.call('GET', KEYS[1]) or '0'
if tonumber(seen) ~= tonumber(ARGV[1]) then
  return {seen}
end
return {seen, redis.call(ARGV[2], KEYS[2], unpack(ARGV, 3))}
