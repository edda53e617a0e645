-- Part queue: a lock's queue, which is a sorted set of places by ticket. A client's sign of life
-- is a key with a TTL, whose value is the stamp that the client gave. Once the key has expired,
-- the client's places count as dead. It uses part names, and the call's record, state, stamp and liveness.

-- The record's name is the prefix of the namespace, redlock:node, and in a cluster the slot's tag.
-- A sign of life has the same prefix and the same tag, so that its key is in the same namespace and
-- in the same slot. A name of a namespace has no colon, so it does not contain redlock:node.
local prefix, tag = string.match(record, '^(.-)redlock:node(.*)$')

local function sign_of_life(place)
  return prefix .. 'redlock:alive' .. tag .. ':' .. client_of(place)
end

-- wake_channel is the channel on which the place's client hears of this master's votes and wakes.
local function wake_channel(place)
  return prefix .. 'redlock:wake:' .. client_of(place)
end

-- listens says whether the place is waited for: its client, whose sign of life is given, hears the
-- messages of this master, or says by a w that it is to be waited for all the same. A client that
-- was killed does not, and would cost the others the life of a handed vote (H19 in docs/internals/handoff.md).
-- A user without the right to ask waits for everybody.
--
-- It also returns how many hear the channel called other, if that is given and the master was asked.
local function listens(place, given, other)
  if string.sub(given, -1) == 'w' then
    return true
  end
  local channel = wake_channel(place)
  local count = other and try('pubsub', 'numsub', channel, other) or try('pubsub', 'numsub', channel)
  return count[2] ~= 0, count[4]
end

-- head returns the first place that is waited for and its client's stamp, or nil. It removes the
-- places before it, so each is looked at once: places of clients without a sign of life, and of
-- clients that do not listen. A client that is alive all the same asks again as soon as it listens.
-- own is the place of the caller, if it has one; it gets a reply, and need neither listen nor give a sign. If fits is
-- set, the record has the state that this call names; then a place that was taken in another state
-- is removed too: it must not be granted in this one (H10 in docs/internals/handoff.md). first is the
-- first place of all, if the caller has just read it. With other, head also returns what listens says of it.
local function head(queue, fits, own, first, other)
  while true do
    first = first or call('zrange', queue, '0', '0')[1]
    if not first then
      return nil
    end
    local given = call('get', sign_of_life(first))
    local waited, others = first == own, nil
    if not waited and given and not (fits and (state_of(first) or state) ~= state) then
      waited, others = listens(first, given, other)
    end
    if waited then
      return first, given, others
    end
    call('zrem', queue, first)
    first = nil
  end
end

-- wake names the place: its client may have given it up without this master having heard of it, and
-- takes it out of the queue then. A client of an earlier build understands the lock's name only.
local function wake(place, lock)
  call('publish', wake_channel(place), string.find(string.sub(place, 37), '/', 1, true) and lock .. '\0' .. place or lock)
end

-- put puts the place into the queue.
local function put(queue, ticket, place)
  call('zadd', queue, ticket, place)
  local lives = try('pexpire', queue, '60000')
  if type(lives) == 'table' then -- no key may be left without a TTL
    call('zrem', queue, place)
    error(lives)
  end
end

-- enqueue puts the place into the queue, and sets the sign of life of its client. word is the ticket as
-- text. It returns the ticket, which it takes from this master's clock if the given one is 0.
local function enqueue(queue, word, place)
  local ticket = tonumber(word)
  if ticket == 0 then
    local now = call('time')
    ticket = now[1] * 1000000 + now[2]
    word = ticket
  end
  if stamp ~= '' then
    call('set', sign_of_life(place), stamp, 'px', liveness)
  end
  put(queue, word, place)
  return ticket
end
