-- Part record_state: which masters may extend or restore a vote.

-- record_state_error returns nil if the record's state is voting, or if it begins with
-- quarantined. A quarantined master gives no votes to other holders, so it may keep the votes
-- of a live lease. A lease therefore survives a rolling restart of all masters; of a write lease
-- and the read lease within it one does where the masters lose their data (topup.lua puts back one
-- of the two). Otherwise record_state_error returns the error.
local function record_state_error(record, voting, quarantined)
  local state = call('hget', record, 'state') or ''
  if state ~= voting and string.sub(state, 1, #quarantined) ~= quarantined then
    return redis.error_reply('REDLOCK STATE ' .. state)
  end
end

