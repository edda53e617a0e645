-- Part token: the fencing token of a grant.

-- next_token returns the token of the next vote, the same as text, which is to be stored as the counter, and latest; or nil and
-- an error. last is the counter, and proposed the caller's proposal, both as text. latest is the largest
-- proposal that this master takes without asking for its TIME.
--
-- A counter never falls, and each token is above all tokens that the counter gave before
-- (docs/safety.md, rule R2). Numbers stay below 2^53, up to which Lua's are exact.
local function next_token(last, proposed, latest)
  local counter, floor = tonumber(last), tonumber(proposed)
  if not (counter and counter >= 0 and counter < 9007199254740990 and counter % 1 == 0) then -- so that NaN fails
    return nil, 'REDLOCK COUNTER ' .. last
  end
  local token = counter + 1
  if floor > token and floor > latest then
    -- The proposal is beyond latest, so this master compares it with its clock. It ignores
    -- a proposal that is more than a minute ahead: clients with wrong clocks must not push
    -- the tokens into the future, neither at once nor in many steps. The record keeps
    -- latest, because asking for TIME in each call would cost a tenth of the throughput.
    local now = redis.pcall('time')
    if now.err then
      return nil, now.err
    end
    latest = now[1] * 1000000 + now[2] + 60000000
  end
  if floor > token and floor <= latest then
    return floor, proposed, latest
  end
  return token, string.format('%.0f', token), latest
end

