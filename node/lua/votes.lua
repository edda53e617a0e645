-- votes.lua: gives votes and releases them. One call carries all acquires and releases that
-- are on their way to this master, in the order of their submission, because starting a script
-- costs as much as five of the commands in it.
--
-- KEYS[2i - 1], KEYS[2i] the i-th op's lock and the lock's queue   the last key: the record
-- ARGV[1] n, how many of the ops may raise a counter: acquires, and releases that may hand
-- ARGV[2] TTL in ms of a waiting client's sign of life, and of a vote that is handed
-- ARGV[3] the stamp of the sign of life   ARGV[4] the state that the record must have
-- ARGV[5] TTL of the votes in ms
-- ARGV[6] the field of a write vote that a reader may join, or empty
-- ARGV[7] ... ARGV[6 + n] the counters of the locks of these ops, fields of the record. Those of
--   the acquires differ, because each is read once and written once.
-- ARGV[7 + n] ... ARGV[6 + 2n] their proposed tokens
-- and then four words for each op:
--   act     acquire
--           barge    an acquire that passes the waiters ahead of it
--           retry    an acquire of a caller that has asked before
--           oust     a retry of a lock that is for an order only. It takes away the vote of a holder
--                    whose client gave a sign of life and does not listen
--           queue    takes a place, and no vote even if the lock is free
--           again    an acquire of a holder that has asked before: it creates no place
--           release
--           leave    a release with a retry of the same caller behind it
--           hand     a release that may hand the lock to the head of the queue
--   mode    x plain, w write, r read
--   holder  the holder's field in the lock's hash
--   ticket  of an acquire, its place in the queue: 0 for a new one, empty if it does not queue
--           of a release, the holder whose rest of the lock is lifted, empty for none
--
-- Returns the answer of each op, in an array if there are several ops.
-- An acquire answers
--   the token, above 0: granted. A holder that has the vote gets the counter, and the full TTL.
--   {-1 - PTTL, holder}: not granted, and the caller does not queue. The number is 0 when the
--     lock has no TTL. The holder is * for readers. It is empty when nobody holds the lock and
--     others queue for it. While the lock rests the PTTL is that of the rest, if that ends later.
--   {-1 - PTTL, ticket, ahead, foreign}: not granted, and the caller has this place in the
--     queue. foreign is 1 when Redisson holds the lock. A release by Redisson wakes no waiter
--     of the queue.
--   REDLOCK UNDO <error>: the vote may be there and must be released.
-- A release answers 1 if it released the vote, or 0 if the holder has no vote on this master,
-- as on a replay. It removes the holder's place too.
-- An op that changed nothing may answer an error of Redis, as text, or
--   REDLOCK STATE <state>    the record has another state
--   REDLOCK COUNTER <value>  the counter is no whole number from 0 to below 2^53
-- The call fails with REDLOCK UNDO <error> if it could not raise the counters. Every vote of
-- the call must then be released.
--
-- A hand publishes lock, field, token, stamp and TTL on the channel of the place's client, with
-- a NUL between them.
--
-- A lock is a hash at its name with a TTL. Each field is a holder, its value the hold count.
-- That is Redisson's layout.

-- To create a function costs a tenth of a command, and to call it as much. So what every call
-- does is written into the loop, and what few calls need is created when an op needs it.

-- make_contention creates the functions for a lock that is held or queued for, and for readers.
-- They share no variables with the rest of the script.
local function make_contention()
  local call, try = redis.call, redis.pcall
  local record, liveness, stamp, state, ttl, join_write = KEYS[#KEYS], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
-- @part redisson
-- @part rest
-- @part names
-- @part queue
-- @part contend
-- @part settle
  return {contend = contend, dequeue = dequeue, settle = settle, timeout_key = timeout_key, rest_key = rest_key,
    wake = wake, wake_channel = wake_channel}
end
local contention

local KEYS, ARGV = KEYS, ARGV
local try = redis.pcall -- an error that ended the script would leave the votes of earlier ops
local HEADER, STRIDE = 6, 4 -- words of ARGV up to the counters, and of an op
local record, raises, state, ttl = KEYS[#KEYS], tonumber(ARGV[1]), ARGV[4], ARGV[5]
local at = HEADER + 2 * raises -- the last word that was read

local refusal    -- the answer to all acquires, if the record has another state
local found      -- the record's state, its fields latest and rests, and the counters; nil until an op needs them
local latest = 0 -- the largest proposal that this master accepts without asking for its TIME
local known = 0  -- its value in the record
local handed     -- by counter, the values that hands of this call have stored
local raised     -- arguments of the HSET that raises the counters of acquires
local words = 1  -- how many arguments those are
if raises > 0 then
  raised = {record, false, false} -- room for a lone op, because a table grows slot by slot
end

-- A lone op answers without an array, because an array costs more than a command.
local answers, answer = KEYS[4] and {false}, nil
local nth = 0 -- of the ops that may raise a counter, the one that is executed
for i = 1, #KEYS - 1, 2 do
  local lock, queue = KEYS[i], KEYS[i + 1]
  local act, mode, holder, ticket = unpack(ARGV, at + 1, at + STRIDE)
  at = at + STRIDE
  if act == 'hand' or act == 'release' or act == 'leave' then
    if act == 'hand' then
      nth = nth + 1
    end
-- @part release
  else
    nth = nth + 1
    if not found then
-- @part counters
    end
    if refusal then
      answer = refusal
    else
-- @part acquire
    end
  end
  if answers then
    answers[(i + 1) / 2] = answer
  end
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
return answers or answer
