-- Gives and takes back votes: all that is on its way to this master at once, in the
-- order in which it was asked for. To begin a script costs as much as five of the
-- commands in it, which callers that lock at the same time share.
-- KEYS[2i - 1], KEYS[2i] a lock and its queue   the last one: the node record
-- ARGV[1] n, how many of the ops are acquires; no two of them share a counter
-- if there are any:
--   ARGV[2] the record's gate, as it must be   ARGV[3] liveness in ms of those who wait
--   ARGV[4] TTL in ms   ARGV[5] ... ARGV[4 + n] their locks' counters, fields of the record
-- and then for each lock
--   an acquire: its mode (x plain, w write, r read), followed by q if it queues when
--     it is not granted, or by b if it also goes past those ahead of it; the holder's
--     field; floor, the proposed token; ticket, 0 for none yet; and for a read the field
--     of a write vote that it may join, or empty
--   or a release: -x, -w or -r, followed by q if it takes its place in the queue again;
--     the holder's field; Redisson's channel for the lock; and with q its ticket and the
--     liveness in ms
--
-- Returns for each lock, and for one not in an array, of an acquire:
--   the counter, > 0: granted (also on a replay by the same holder), or
--   -1 - PTTL, <= 0: not now; 0 when that key has no TTL. An acquire that queues is
--   told four: that number, its ticket, how many are ahead of it, and whether the holder
--   is Redisson's, whose release wakes nobody's queue. One that does not queue is told
--   two: that number, and the holder, * for readers, or empty when others queue for a
--   lock that nobody holds.
-- Of a release: 1 released, or 0 not held by this holder (also on a replay).
-- Of either, when it changed nothing: the text of an error, of Redis or
-- REDLOCK GATE <gate>, REDLOCK COUNTER <value>; REDLOCK UNDO <error> when a vote may be
-- there that is to be taken back.
-- Error of the whole: REDLOCK UNDO, the counters could not be raised: all votes given
-- are to be taken back.
--
-- A lock's layout (a hash at its name, field holder = count, TTL set in the same
-- script) is Redisson's. A plain lock's hash has one field, so HDEL removes the key
-- with it; no GET and compare is needed, and another holder's field cannot be touched.

-- What is not nearly every call's, in a function of its own: to make a closure of each
-- part, in each call, would cost as much as the rest.
local function parts()
  -- A client's sign of life is called as the node record is, redlock:node, which in a
  -- cluster has the slot's tag behind it.
  local alive = 'redlock:alive' .. string.sub(KEYS[#KEYS], 13) .. ':'

  -- A waiter is its client's id, the first 36 bytes of the holder's, and its side.
  -- The queue: a sorted set of waiters by ticket. A waiter is dead when its client's
  -- sign of life is gone.
  local function head(queue)
    while true do
      local first = redis.call('zrange', queue, 0, 0)[1]
      if not first or redis.call('exists', alive .. string.sub(first, 1, 36)) == 1 then
        return first
      end
      redis.call('zrem', queue, first)
    end
  end

  -- Wakes the head, unless that is the one who has just been here.
  local function wake(queue, lock, waiter)
    local first = head(queue)
    if first and first ~= waiter then
      redis.call('publish', 'redlock:wake:' .. string.sub(first, 1, 36), lock)
    end
  end

  local function queueUp(queue, ticket, waiter, liveness)
    redis.call('set', alive .. string.sub(waiter, 1, 36), '1', 'px', liveness)
    redis.call('zadd', queue, ticket, waiter)
    local lives = redis.pcall('pexpire', queue, 60000)
    if type(lives) == 'table' then
      redis.call('zrem', queue, waiter)
      error(lives)
    end
  end

  local function waiterOf(holder, mode)
    return string.sub(holder, 1, 36) .. (mode == 'x' and '' or '/' .. mode)
  end

  -- Readers' timeout keys, by which their votes live.
  local function timeouts(lock)
    return (string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}') .. ':'
  end

  local function holderOf(lock)
    if redis.call('hget', lock, 'mode') == 'read' then
      return '*'
    end
    for _, field in ipairs(redis.call('hkeys', lock)) do
      if field ~= 'mode' then
        return (string.gsub(field, ':write$', ''))
      end
    end
    return ''
  end
  -- Writes a vote as a whole or not at all: no key may be left without a TTL, whichever
  -- command fails (docs/safety.md A29). A reader's timeout key comes first, for it has its
  -- TTL from the beginning.
  local function give(lock, holder, mode, ttl, left)
    local timeout = mode == 'r' and timeouts(lock) .. holder .. ':rwlock_timeout:1'
    if timeout then
      redis.call('set', timeout, '1', 'px', ttl)
    end
    local done
    if left == -2 and mode ~= 'x' then
      done = redis.pcall('hset', lock, 'mode', mode == 'r' and 'read' or 'write', holder, '1')
    else
      done = redis.pcall('hset', lock, holder, '1')
    end
    if type(done) == 'number' and left < tonumber(ttl) then
      done = redis.pcall('pexpire', lock, ttl)
    end
    if type(done) == 'number' then
      return
    end
    local undone = left == -2 and redis.pcall('del', lock) or redis.pcall('hdel', lock, holder)
    if timeout then
      redis.pcall('del', timeout)
    end
    if type(undone) == 'table' then
      error({err = 'REDLOCK UNDO ' .. done.err})
    end
    error(done)
  end
  -- Takes a waiter that was granted out of the queue. Readers go in together.
  local function leave(lock, queue, waiter, mode)
    if redis.call('zrem', queue, waiter) == 1 and mode == 'r' then
      local first = head(queue)
      if first and string.sub(first, 37) == '/r' then
        redis.call('publish', 'redlock:wake:' .. string.sub(first, 1, 36), lock)
      end
    end
  end
  -- An acquire in full: the answer, and whether the counter is to be raised to it.
  local function acquire(lock, queue, how, holder, ttl, floor, ticket, over, value, liveness)
    local mode = string.sub(how, 1, 1)
    local queues = how ~= mode
    if mode ~= 'r' then over = '' end -- it is the next op's word
    local waiter = waiterOf(holder, mode)
    local left = redis.call('pttl', lock)
    local free = left == -2
    if not free then
      if redis.call('hexists', lock, holder) == 1 then
        local counter = tonumber(value)
        return counter and counter > 0 and counter or 'REDLOCK COUNTER ' .. value
      end
      if mode == 'r' then
        local held = redis.call('hget', lock, 'mode')
        free = held == 'read' or
          (held == 'write' and over ~= '' and redis.call('hexists', lock, over) == 1)
      end
    end

    local turn, ahead = true, 0
    ticket = tonumber(ticket)
    local told = ticket > 0
    local first = told and free and redis.call('zrange', queue, 0, 0, 'withscores')
    if first and first[1] == waiter and tonumber(first[2]) == ticket then
      -- It is its turn, as of nearly everybody who was woken. To line up again would make
      -- this half as dear again.
    elseif (queues and not free) or redis.call('exists', queue) == 1 then
      if queues then
        if not told then
          -- Whatever place it has is an earlier turn's, and about to be left.
          local now = redis.call('time')
          ticket = now[1] * 1000000 + now[2]
        end
        queueUp(queue, ticket, waiter, liveness)
        head(queue)
        ahead = redis.call('zrank', queue, waiter)
        turn = ahead == 0 or string.sub(how, 2) == 'b'
        if not turn and mode == 'r' and free then
          -- Readers go in together, but not past a writer that waits.
          turn = true
          for _, other in ipairs(redis.call('zrange', queue, 0, ahead - 1)) do
            turn = turn and string.sub(other, 37) == '/r'
          end
        end
      else
        turn = over ~= '' or not head(queue)
      end
    end

    if not (free and turn) then
      if free then
        left = 0
        -- It may have been woken in its place of before, and has just gone behind another.
        if queues and told then wake(queue, lock) end
      end
      if not queues then
        return {-1 - left, holderOf(lock)}
      end
      local stranger = 0
      if left ~= 0 then
        for _, f in ipairs(redis.call('hkeys', lock)) do
          -- Our holders' ids are UUIDs of version 8, Java's are of version 4.
          if f ~= 'mode' and string.sub(f, 15, 15) ~= '8' then stranger = 1 end
        end
      end
      return {-1 - left, ticket, ahead, stranger}
    end

    -- The counter never falls, and its next value is above all it gave before
    -- (docs/safety.md, rule R2). Numbers stay below 2^53, where Lua's are exact.
    local counter = tonumber(value)
    if not counter or not (counter >= 0 and counter < 9007199254740990 and counter % 1 == 0) then -- so that NaN fails
      return 'REDLOCK COUNTER ' .. value
    end
    counter = counter + 1
    floor = tonumber(floor)
    if floor > counter + 60000000 then
      -- A proposal that leaps a minute is held against this master's clock and ignored
      -- when it is a minute ahead of it: a client with a wild clock must not push the
      -- tokens into the future. TIME is not asked for otherwise; it would cost a tenth
      -- of the throughput.
      local now = redis.call('time')
      if floor > now[1] * 1000000 + now[2] + 60000000 then
        floor = 0
      end
    end
    counter = math.max(counter, floor)

    give(lock, holder, mode, ttl, left)
    if queues then
      pcall(leave, lock, queue, waiter, mode) -- the vote is given, whatever comes of that
    end
    return counter, true
  end

  -- What is left to do of a release after HDEL.
  local function released(lock, queue, how, holder, channel, ticket, liveness)
    local mode = string.sub(how, 2, 2)
    local free, wakes = true, true
    if mode == 'r' then
      local prefix = timeouts(lock)
      redis.call('del', prefix .. holder .. ':rwlock_timeout:1')
      -- The others' votes live as long as their timeout keys: one of ours has one, Java's
      -- one a hold, each with its own lease. The hash must not outlive the last of them,
      -- or a reader that dies keeps writers out for the TTL of one that has left.
      local others, java, written = 0, false, false
      for _, field in ipairs(redis.call('hkeys', lock)) do
        if string.sub(field, -6) == ':write' then
          written = true
          break
        elseif field ~= 'mode' then
          local left = 0
          for i = 1, tonumber(redis.call('hget', lock, field)) or 1 do
            left = math.max(left, redis.call('pttl', prefix .. field .. ':rwlock_timeout:' .. i))
          end
          if left == 0 then
            redis.call('hdel', lock, field) -- a reader that died
          else
            java = java or string.sub(field, 15, 15) ~= '8'
          end
          others = math.max(others, left)
        end
      end
      if written then
        free, wakes = false, false
      elseif others > 0 then
        -- The next in line sleeps as long as it was told, so it must learn of an end that
        -- is much nearer now. A reader of Java's may have joined after it last looked: then
        -- it must learn that it is Java's channel that will tell the end.
        free, wakes = false, java or redis.call('pttl', lock) - others >= 1000
        redis.call('pexpire', lock, others)
      else
        redis.call('del', lock)
      end
    elseif mode == 'w' then
      if redis.call('hlen', lock) > 1 then
        redis.call('hset', lock, 'mode', 'read') -- its holder reads on
      else
        redis.call('del', lock)
      end
      redis.call('publish', channel, '1') -- all who sleep: readers go in together
    end
    if free then
      -- Java loses a 1 that comes between its second try and its sleep, and sleeps to the
      -- TTL; a 0 stays until it is taken.
      redis.call('publish', channel, '0')
    end
    local waiter
    if ticket then
      waiter = waiterOf(holder, mode)
      queueUp(queue, ticket, waiter, liveness)
    end
    if wakes and redis.call('exists', queue) == 1 then
      wake(queue, lock, waiter)
    end
  end

  return acquire, released, wake
end
local acquire, released, wake

local KEYS, ARGV, try = KEYS, ARGV, redis.pcall

-- Takes back a vote that could not be given a TTL, and returns why.
local function undo(lock, failed)
  local undone = try('del', lock)
  return (undone == 1 and '' or 'REDLOCK UNDO ') .. failed.err
end

-- A lone caller's op, with nobody in its way: what the loop below does, without the
-- tables that many ops need, which cost as much as all else. What is out of the ordinary
-- has changed nothing by then, and goes on to the loop; so does one with a ticket, which
-- has been in a queue.
if not KEYS[4] then
  if ARGV[2] == '-x' then
    if try('hdel', KEYS[1], ARGV[3]) == 1 then
      try('publish', ARGV[4], '0')
      if try('exists', KEYS[2]) == 1 then
        acquire, released, wake = parts()
        pcall(wake, KEYS[2], KEYS[1])
      end
      return 1
    end
  elseif (ARGV[6] == 'xq' or ARGV[6] == 'x') and ARGV[9] == '0' and try('exists', KEYS[1], KEYS[2]) == 0 then
    local had = try('hmget', KEYS[3], 'gate', ARGV[5])
    local counter, floor = tonumber(had[2] or 0), tonumber(ARGV[8])
    if not had.err and (had[1] or '') == ARGV[2] and counter and counter >= 0 and counter < floor and floor <= counter + 60000000 and
       try('hset', KEYS[1], ARGV[7], '1') == 1 then
      local lives = try('pexpire', KEYS[1], ARGV[4])
      if lives ~= 1 then
        return undo(KEYS[1], lives)
      end
      local raised = try('hset', KEYS[3], ARGV[5], ARGV[8])
      if type(raised) == 'table' then
        return redis.error_reply('REDLOCK UNDO ' .. raised.err)
      end
      return floor
    end
  end
end

local n, at, field = tonumber(ARGV[1]), 2, 4
local record, counters, refusal = KEYS[#KEYS], nil, nil
if n > 0 then
  counters = try('hmget', record, 'gate', unpack(ARGV, 5, 4 + n))
  if counters.err then
    refusal = counters.err
  elseif (counters[1] or '') ~= ARGV[2] then
    refusal = 'REDLOCK GATE ' .. (counters[1] or '')
  end
  at = 5 + n
end

-- Tables are made as large as one op needs: they would grow slot by slot.
local out, raised, m = {false}, {record, false, false}, 1 -- raised: counters, and their values
for i = 1, #KEYS - 1, 2 do
  local lock, queue, how, holder = KEYS[i], KEYS[i + 1], ARGV[at], ARGV[at + 1]
  local answer
  if how == '-x' then
    -- pcall: once the vote is gone, it is gone whatever comes of the rest, a key of
    -- another type in the queue's place, say, in which there is nobody to wake.
    answer = try('hdel', lock, holder)
    if answer == 1 then
      try('publish', ARGV[at + 2], '0') -- 0: see above
      if try('exists', queue) == 1 then
        if not wake then acquire, released, wake = parts() end
        pcall(wake, queue, lock)
      end
    elseif answer ~= 0 then
      answer = answer.err
    end
    at = at + 3
  elseif string.byte(how) == 45 then -- a minus
    local ticket, liveness, words
    if #how == 3 then
      ticket, liveness, words = ARGV[at + 3], ARGV[at + 4], 5
    end
    answer = try('hdel', lock, holder)
    if answer == 1 then
      if not released then acquire, released, wake = parts() end
      pcall(released, lock, queue, how, holder, ARGV[at + 2], ticket, liveness)
    elseif answer ~= 0 then
      answer = answer.err
    end
    at = at + (words or 3)
  else
    field = field + 1
    local value = counters[field - 3] or '0'
    local counter, floor = tonumber(value), tonumber(ARGV[at + 2])
    local plain = how == 'xq' or how == 'x'
    if refusal then
      answer = refusal
    elseif plain and ARGV[at + 3] == '0' and counter and counter >= 0 and counter < floor and floor <= counter + 60000000 and
       try('exists', lock, queue) == 0 then
      -- What nearly every acquire finds, in as few steps as there are: nobody holds it,
      -- nobody waits, and the proposed token is good. The proposal is written as it
      -- came; printing a number would cost as much as another command.
      answer = try('hset', lock, holder, '1')
      if answer == 1 then
        answer = try('pexpire', lock, ARGV[4])
        if answer == 1 then
          raised[m + 1], raised[m + 2] = ARGV[field], ARGV[at + 2]
          m = m + 2
          answer = floor
        else
          answer = undo(lock, answer)
        end
      else
        answer = answer.err
      end
    else
      if not acquire then acquire, released, wake = parts() end
      local ok, granted
      ok, answer, granted = pcall(acquire, lock, queue, how, holder, ARGV[4], ARGV[at + 2], ARGV[at + 3],
        ARGV[at + 4], value, ARGV[3])
      if not ok and type(answer) == 'table' then
        answer = answer.err
      elseif granted then
        raised[m + 1], raised[m + 2] = ARGV[field], answer
        m = m + 2
      end
    end
    at = at + 4
    if not plain and string.sub(how, 1, 1) == 'r' then
      at = at + 1
    end
  end
  out[(i + 1) / 2] = answer
end
if m > 1 then
  local set = try('hset', unpack(raised, 1, m))
  if type(set) == 'table' then
    return redis.error_reply('REDLOCK UNDO ' .. set.err)
  end
end
-- An array costs more to return than HSET does to run.
return #KEYS > 3 and out or out[1]
