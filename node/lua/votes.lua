-- votes.lua: gives votes and takes them back. One call carries all such ops that are on
-- their way to this master, in the order in which callers asked, because to begin a script
-- costs as much as five of the commands in it.
--
-- KEYS[2i - 1], KEYS[2i] the i-th op's lock and the lock's queue   the last one: the record
-- ARGV[1] how many of the ops are acquires
-- ARGV[2] the gate that the record must have, else acquires are refused
-- ARGV[3] TTL of the votes in ms   ARGV[4] TTL of a waiting client's sign of life in ms
-- ARGV[5] the field of a write vote that acquires to read may join, or empty
-- and then six words for each op:
--   act      acquire; barge, an acquire that passes those ahead of it; or release
--   mode     x plain, w write, r read
--   holder   the holder's field in the lock's hash
--   ticket   the caller's place in the queue: 0 for a new one, empty if it does not queue.
--            A release with a ticket takes the caller's next place.
--   counter  the lock's counter, a field of the record; empty for a release
--   floor    the proposed token; empty for a release
--
-- Returns an answer for each op, in an array if there are several ops.
-- Of an acquire:
--   the token, > 0: granted. A replay by the same holder is told the counter.
--   {-1 - PTTL, holder}: not now, and the caller does not queue. The number is 0 when the
--     lock has no TTL. The holder is * for readers, and empty when nobody holds the lock and
--     others queue for it.
--   {-1 - PTTL, ticket, ahead, foreign}: not now, and the caller has this place in the
--     queue. foreign is 1 when Redisson holds the lock; its release wakes nobody here.
-- Of a release: 1 released, or 0 this holder has no vote here (also on a replay).
-- Of either, when it changed nothing: the text of an error, of Redis or
--   REDLOCK GATE <gate>      the record has another gate
--   REDLOCK COUNTER <value>  the counter is no whole number from 0 to below 2^53
-- Of an acquire: REDLOCK UNDO <error>, its vote may be there and must be released.
-- Error of the call: REDLOCK UNDO <error>, the counters could not be raised, and every
-- vote of the call must be released.
--
-- A lock is a hash at its name, field holder = hold count, with a TTL: Redisson's layout.

local call, try = redis.call, redis.pcall
local HEADER, STRIDE, COUNTER = 5, 6, 5 -- words of ARGV before the ops, of an op, up to its counter
local record, gate, ttl = KEYS[#KEYS], ARGV[2], ARGV[3]

-- What most calls do not need is made when it is first needed, and shares no variables with
-- the rest: to make all these functions in each call would double the cost of a lone op.
local function make_contention()
  local call, try = redis.call, redis.pcall
  local record, liveness, over = KEYS[#KEYS], ARGV[4], ARGV[5]
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

-- The record is read once a call, and written once a call.
local refusal
local counters     -- values by field, as read and as raised since
local raised       -- HSET's words, which raise counters
local words = 1    -- how many words those are
local known = 0    -- latest, as read
if ARGV[1] ~= '0' then
  counters, raised = {}, {record, false, false} -- as large as a lone op needs: tables grow slot by slot
  local fields = {}
  for at = HEADER + COUNTER, #ARGV, STRIDE do
    if ARGV[at] ~= '' then
      fields[#fields + 1] = ARGV[at]
    end
  end
  local found = try('hmget', record, 'gate', 'latest', unpack(fields))
  if found.err then
    refusal = found.err
  elseif (found[1] or '') ~= gate then
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
-- A lone op's answer goes without its array, which costs more than a command.
return #KEYS > 3 and answers or answers[1]
