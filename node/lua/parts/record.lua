-- Part record: the node record, and how one counter is raised. It uses next_token, and of votes.lua's slow functions found,
-- refusal, latest and stale (see piece raise), ARGV, raises, counters and proposals.

-- read_record reads the record, unless the call has read it.
local function read_record()
  if found then
    return
  end
  found = try('hmget', record, 'state', 'latest', 'rests', unpack(ARGV, counters + 1, counters + raises))
  refusal = found.err or (found[1] or '') ~= state and 'REDLOCK STATE ' .. (found[1] or '') or nil
  latest = tonumber(found[2] or 0) or 0
end

-- counter_of returns the counter of the nth op that may raise one.
local function counter_of(nth)
  return stale and call('hget', record, ARGV[counters + nth]) or found[3 + nth] or '0'
end

-- raise raises the counter of the nth op, and returns the token of the vote that may be written now, nil, and the token as text; or nil
-- and an error.
local function raise(nth)
  local token, stored, reach = next_token(counter_of(nth), ARGV[proposals + nth], latest)
  if not token then
    return nil, stored
  end
  local set
  if reach == latest then
    set = try('hset', record, ARGV[counters + nth], stored)
  else
    set = try('hset', record, ARGV[counters + nth], stored, 'latest', reach)
  end
  if type(set) == 'table' then
    return nil, set.err
  end
  stale, latest = true, reach
  return token, nil, stored
end

