-- check.lua: tries every command that the other scripts call. A missing right, or a command that
-- the master does not have, is then found when a connection is made, and not in the middle of a vote. The commands run on keys and
-- channels of their own, whose names are like those that the scripts use and derive.
--
-- KEYS[1] the check's lock, which no other client uses
-- ARGV[1] its queue   ARGV[2] a reader's timeout key of it   ARGV[3] a sign of life
-- ARGV[4] the node record   ARGV[5] the label of a client   ARGV[6] a key that bars a holder
-- ARGV[7] a rest   ARGV[8] ... the channels that the scripts publish to
-- The other keys are in ARGV: if the user may not touch a key in KEYS, Redis refuses the
-- whole script and does not name the command.
--
-- Returns two lists of the rights that the user lacks: those that every lock needs, and
-- those that only read locks need. Each right is a text: the command, and its key or channel.
-- Then the error with which the master refuses to write, or an empty text. The script ignores
-- other errors.
local lock, queue, timeout, alive, record = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local owner, bar, rest = ARGV[5], ARGV[6], ARGV[7]
local missing, forReaders, refusal = {}, {}, ''
local found = missing
local function check(...)
  local reply = redis.pcall(...)
  local err = type(reply) == 'table' and reply.err
  -- Redis before 7.2 answers the first text, for a command, a key and a channel, and 7.2 and later the second. The last one, of which the end
  -- differs, is of a command that redis.conf has renamed or disabled: no script can call it.
  if err and (string.find(err, 'The user executing the script', 1, true) or string.find(err, 'ermissions', 1, true) or
     string.find(err, 'command called from', 1, true)) then
    local command, on = ...
    found[#found + 1] = command .. (on and ' on ' .. on or '')
  elseif err and refusal == '' and (string.find(err, 'OOM ', 1, true) or string.find(err, 'MISCONF ', 1, true) or
     string.find(err, 'NOREPLICAS ', 1, true)) then
    refusal = err
  end
end
check('time')
check('hset', lock, 'f', 1)
check('pexpire', lock, 1000)
check('pttl', lock)
check('exists', lock)
check('hget', lock, 'f')
check('hexists', lock, 'f')
check('hkeys', lock)
check('hlen', lock)
check('hdel', lock, 'f')
check('zadd', queue, 1, 'm')
check('pexpire', queue, 1000)
check('exists', queue)
check('zscore', queue, 'm')
check('zrank', queue, 'm')
check('zrange', queue, 0, 0)
check('zrem', queue, 'm')
check('zpopmin', queue)
check('set', alive, 1, 'px', 1)
check('get', alive)
check('set', owner, 1, 'px', 1)
check('get', owner)
check('set', bar, 1, 'px', 1)
check('exists', bar)
check('set', rest, 1, 'px', 1)
check('get', rest)
check('exists', rest)
check('pttl', rest)
check('hmget', record, 'state')
check('hget', record, 'state')
check('hgetall', record)
check('hdel', record, 'none') -- needs the right to write, and writes nothing
for i = 8, #ARGV do
  check('publish', ARGV[i], '')
end
check('del', lock, queue, alive, owner, bar, rest) -- last, because it removes what the commands above have written
-- A user may have rights to these keys for some locks only, and a connection does not know
-- for which.
found = forReaders
check('set', timeout, 1, 'px', 1000)
check('pexpire', timeout, 1000)
check('pttl', timeout)
check('hrandfield', lock, 1)
check('del', timeout)
return {missing, forReaders, refusal}
