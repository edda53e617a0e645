-- votes.lua: gives votes and releases them. One call carries all acquires and releases that
-- are on their way to this master, in the order of their submission, because starting a script
-- costs as much as five of the commands in it.
--
-- KEYS[2i - 1], KEYS[2i] the i-th op's lock and the lock's queue   the last key: the record
-- ARGV[1] how many of the ops are acquires
-- ARGV[2] the state that the record must have for an acquire
-- ARGV[3] TTL of the votes in ms   ARGV[4] TTL of a waiting client's sign of life in ms
-- ARGV[5] the field of a write vote that a reader may join, or empty
-- and then six words for each op:
--   act      acquire; barge, an acquire that passes the waiters ahead of it; or release
--   mode     x plain, w write, r read
--   holder   the holder's field in the lock's hash
--   ticket   the caller's place in the queue: 0 for a new one, empty if it does not queue.
--            A release with a ticket puts the caller into the queue again.
--   counter  the lock's counter, a field of the record; empty for a release
--   floor    the proposed token; empty for a release
--
-- Returns the answer of each op, in an array if there are several ops.
-- An acquire answers
--   the token, above 0: granted. A replay by the same holder gets the counter.
--   {-1 - PTTL, holder}: not granted, and the caller does not queue. The number is 0 when the
--     lock has no TTL. The holder is * for readers. It is empty when nobody holds the lock and
--     others queue for it.
--   {-1 - PTTL, ticket, ahead, foreign}: not granted, and the caller has this place in the
--     queue. foreign is 1 when Redisson holds the lock. A release by Redisson wakes no waiter
--     of the queue.
--   REDLOCK UNDO <error>: the vote may be there and must be released.
-- A release answers 1 if it released the vote, or 0 if the holder has no vote on this master,
-- as on a replay.
-- An op that changed nothing may answer an error of Redis, as text, or
--   REDLOCK GATE <state>     the record has another state
--   REDLOCK COUNTER <value>  the counter is no whole number from 0 to below 2^53
-- The call fails with REDLOCK UNDO <error> if it could not raise the counters. Every vote of
-- the call must then be released.
--
-- A lock is a hash at its name with a TTL. Each field is a holder, its value the hold count.
-- That is Redisson's layout.

local call, try = redis.call, redis.pcall
local HEADER, STRIDE, COUNTER = 5, 6, 5 -- words of ARGV before the ops, of an op, up to its counter
local record, state, ttl = KEYS[#KEYS], ARGV[2], ARGV[3]

-- make_contention creates the functions for a lock that is held or queued for. Most calls do
-- not need them, and creating them in each call would double the cost of a lone op. They share
-- no variables with the rest of the script.
local function make_contention()
  local call, try = redis.call, redis.pcall
  local record, liveness, join_write = KEYS[#KEYS], ARGV[4], ARGV[5]
-- @part redisson
-- @part names
-- @part queue
-- @part contend
-- @part settle
  return {contend = contend, dequeue = dequeue, settle = settle}
end
local contention

-- @part redisson
-- @part token
-- @part grant
-- @part acquire
-- @part release

-- A call reads the record once, and writes it once.
local refusal
local counters     -- by field: the value that was read, or that a grant has raised it to
local raised       -- arguments of the HSET that raises the counters
local words = 1    -- how many arguments those are
local known = 0    -- the value of latest that was read
if ARGV[1] ~= '0' then
  counters, raised = {}, {record, false, false} -- room for a lone op, because a table grows slot by slot
  local fields = {}
  for at = HEADER + COUNTER, #ARGV, STRIDE do
    if ARGV[at] ~= '' then
      fields[#fields + 1] = ARGV[at]
    end
  end
  local found = try('hmget', record, 'gate', 'latest', unpack(fields))
  if found.err then
    refusal = found.err
  elseif (found[1] or '') ~= state then
    refusal = 'REDLOCK GATE ' .. (found[1] or '')
  end
  known = tonumber(found[2] or 0) or 0
  latest = known
  for i = 1, #fields do
    counters[fields[i]] = found[i + 2] or '0'
  end
end

local answers = {false}
for i = 1, (#KEYS - 1) / 2 do
  local lock, queue, at = KEYS[2 * i - 1], KEYS[2 * i], HEADER + STRIDE * (i - 1)
  local act, mode, holder, ticket, counter, floor = unpack(ARGV, at + 1, at + STRIDE)
  local answer
  if act == 'release' then
    answer = release(lock, queue, mode, holder, ticket)
  elseif refusal then
    answer = refusal
  else
    local done, stored
    done, answer, stored = pcall(acquire, lock, queue, mode, holder, ticket, counters[counter], floor, act == 'barge')
    if not done and type(answer) == 'table' then -- before Redis 7.0
      answer = answer.err
    elseif stored then
      counters[counter] = stored
      raised[words + 1], raised[words + 2] = counter, stored
      words = words + 2
    end
  end
  answers[i] = answer
end

if words > 1 then
  if latest ~= known then
    raised[words + 1], raised[words + 2] = 'latest', latest
    words = words + 2
  end
  local set = try('hset', unpack(raised, 1, words))
  if type(set) == 'table' then
    return redis.error_reply('REDLOCK UNDO ' .. set.err)
  end
end
-- A lone op answers without an array, because an array costs more than a command.
return #KEYS > 3 and answers or answers[1]
