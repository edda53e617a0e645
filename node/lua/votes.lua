-- votes.lua: gives votes and releases them. One call carries all acquires and releases that
-- are on their way to this master, in the order of their submission, because starting a script
-- costs as much as five of the commands in it.
--
-- KEYS[2i - 1], KEYS[2i] the i-th op's lock and the lock's queue   the last key: the record
-- ARGV[1] n, how many of the ops may raise a counter: acquires, and releases that may hand
-- ARGV[2] the state that the record must have   ARGV[3] TTL of the votes in ms
-- ARGV[4] TTL in ms of a waiting client's sign of life, and of a vote that is handed
-- ARGV[5] the stamp of the sign of life; empty if no op of the call takes a place
-- ARGV[6] ... ARGV[5 + n] the counters of the locks of these ops, fields of the record. Those of
--   the acquires differ
-- ARGV[6 + n] ... ARGV[5 + 2n] their proposed tokens
-- and then four words for each op:
--   act     acquire
--           join     an acquire of a reader that may join the write vote of its own owner
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
--   word    of an acquire, its ticket in the queue: 0 for a new one, empty if it does not queue
--           of a join, the field of the write vote
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
-- A release answers 1 if it released the vote, or 0 if the holder has no vote on this master,
-- as on a replay. It removes the holder's place too.
-- An op that changed nothing but the lock's counter may answer an error of Redis, as text, or
--   REDLOCK STATE <state>    the record has another state
--   REDLOCK COUNTER <value>  the counter is no whole number from 0 to below 2^53
--
-- A hand publishes lock, field, token, stamp, TTL and record state on the channel of the place's
-- client, with a NUL between them.
--
-- A lock is a hash at its name with a TTL. Each field is a holder, its value the hold count.
-- That is Redisson's layout.
--
-- There is one order of writes: the counter, the vote, the vote's TTL, the message. So a vote
-- always stands behind a counter that was raised. A counter that was raised for a vote that
-- then failed makes the tokens skip a number, and nothing else.

-- Creating a function costs a master a tenth of a command or more, for each variable of the script that it uses
-- as much again, and calling it a tenth. So what most calls do is in pieces of this file (release, raise), and the functions
-- of the slow ways are created when an op needs them. None of them uses a variable of this file.
--
-- A number that goes to a command is given as text wherever there is one: to print it costs half as much as the command.

-- @part token
-- @part grant

-- make_slow creates the functions for a lock that is held or queued for, that rests, or that is a
-- reader's. The last four are what the call has found, see there.
local function make_slow(next_token, grant, found, refusal, latest, stale)
  local KEYS, ARGV = KEYS, ARGV
  local call, try = redis.call, redis.pcall
  local record, raises, state, ttl, liveness, stamp = KEYS[#KEYS], tonumber(ARGV[1]), unpack(ARGV, 2, 5)
  local counters, proposals = 5, 5 + raises -- the words of ARGV before them
  -- The lock that an op of this call has just handed, and the holder, so that the next caller's acquire need not read it.
  local slow = {}
-- @part record
-- @part redisson
-- @part names
-- @part queue
-- @part seldom
-- @part contend
-- @part acquire
-- @part hand
-- @part settle
  slow.acquire, slow.settle, slow.put, slow.seldom = acquire, settle, put, seldom
  return slow
end

local KEYS, ARGV = KEYS, ARGV
local try = redis.pcall -- an error that ended the script would leave the ops before it without an answer
local HEADER, STRIDE = 5, 4 -- words of ARGV up to the counters, and of an op
local raises, ttl = tonumber(ARGV[1]), ARGV[3]
local ops = HEADER + 2 * raises -- the words of ARGV before the ops

-- First the call looks, and raises the counters of all acquires of a free lock that nobody waits for. Then this is known:
local idle     -- the locks of all acquires are free, and nobody waits for any lock of the call; most calls find it so. Nil for a lone
               -- release, which has not looked
local found    -- if there is an acquire: the record's fields state, latest and rests, and the counters of the ops that may raise
               -- one; in place of a counter that is raised, the token as a number
local refusal  -- the answer to all acquires, or nil: the record has another state, or the counters could not be raised, and nothing is written
local latest   -- the largest proposal that this master takes without asking for its TIME
local stale    -- whether a counter in found may be lower than it is now
if KEYS[4] then
-- @part look
-- @part raise
else
-- @part lone
end

-- Then each op is executed. A lone op answers without an array, because an array costs more than a command.
local slow
local answers, answer = KEYS[4] and {false}, nil
local at, nth = ops, 0 -- the last word that was read; of the ops that may raise a counter, which one this is
for i = 1, #KEYS - 1, 2 do
  local lock, queue = KEYS[i], KEYS[i + 1]
  local act, mode, holder, word = unpack(ARGV, at + 1, at + STRIDE)
  at = at + STRIDE
  if act == 'hand' or act == 'release' or act == 'leave' then
    if act == 'hand' then
      nth = nth + 1
    end
-- @part release
    if more then
      slow = slow or make_slow(next_token, grant, found, refusal, latest, stale)
      local lifted = word ~= '' and slow.seldom().lift(queue, word)
      if type(lifted) == 'string' then
        answer = lifted
      else
        -- An error from here on is ignored, because the vote is gone already. For example, a key
        -- of another type may be in the queue's place; then there is no waiter to wake.
        local settled = pcall(slow.settle, lock, queue, act, mode, holder, gone, lifted, first, ticket, nth)
        if ticket and not settled then
          pcall(slow.put, queue, ticket, first)
        end
      end
    end
  else
    nth = nth + 1
    local token = found[3 + nth] -- a number if the counter is raised
    if refusal then
      answer = refusal
    elseif type(token) == 'number' and mode ~= 'r' then
      answer = grant(lock, holder, mode, '1', ttl, -2, false) or token
    else
      slow = slow or make_slow(next_token, grant, found, refusal, latest, stale)
      local done, told = pcall(slow.acquire, lock, queue, act, mode, holder, word, nth)
      answer = done and told or type(told) == 'table' and told.err or told -- before Redis 7.0 an error may be text
    end
  end
  if answers then
    answers[(i + 1) / 2] = answer
  end
end
return answers or answer
