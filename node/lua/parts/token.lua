-- Part token: fencing tokens come from counters in the record.

-- latest is the largest proposal that this master takes without a look at its clock: some
-- past TIME of it, and a minute.
local latest = 0

-- next_token returns the token of a grant, as a number and as what to store, or nil when last
-- is no counter of ours. last is the counter's value, floor the caller's proposal. A counter
-- never falls, and its next value is above all that it gave before (docs/safety.md, rule R2).
-- Numbers stay below 2^53, where Lua's are exact.
local function next_token(last, floor)
  last = tonumber(last)
  if not last or not (last >= 0 and last < 9007199254740990 and last % 1 == 0) then -- so that NaN fails
    return nil
  end
  local token, proposed = last + 1, tonumber(floor)
  if proposed < token then
    return token, token
  elseif proposed > token and proposed > latest then
    -- The proposal leaps, and further than this master's clock was asked about before. It is
    -- ignored when it is a minute ahead of that clock: clients with wild clocks must not push
    -- the tokens into the future, not by one leap and not in turns. latest is kept in the
    -- record, because to ask for TIME each time would cost a tenth of the throughput.
    local now = call('time')
    latest = now[1] * 1000000 + now[2] + 60000000
    if proposed > latest then
      return token, token
    end
  end
  return proposed, floor -- as text: to print a number costs as much as a command
end
