-- Part token: fencing tokens, which come from counters in the record.

-- latest is the largest proposal that this master accepts without asking for its TIME: an
-- earlier TIME plus a minute.
local latest = 0

-- next_token returns the token of a grant, as a number, and the value to store as the counter.
-- It returns nil if last is not a counter. last is the counter's value, floor the caller's
-- proposal. A counter never falls, and each token is above all tokens that the counter gave
-- before (docs/safety.md, rule R2). Numbers stay below 2^53, up to which Lua's are exact.
local function next_token(last, floor)
  last = tonumber(last)
  if not last or not (last >= 0 and last < 9007199254740990 and last % 1 == 0) then -- so that NaN fails
    return nil
  end
  local token, proposed = last + 1, tonumber(floor)
  if proposed < token then
    return token, token
  elseif proposed > token and proposed > latest then
    -- The proposal is beyond latest, so this master compares it with its clock. It ignores a
    -- proposal that is more than a minute ahead: clients with wrong clocks must not push the
    -- tokens into the future, neither at once nor in many steps. The record keeps latest,
    -- because asking for TIME in each call would cost a tenth of the throughput.
    local now = call('time')
    latest = now[1] * 1000000 + now[2] + 60000000
    if proposed > latest then
      return token, token
    end
  end
  return proposed, floor -- as text, because printing a number costs as much as a command
end
