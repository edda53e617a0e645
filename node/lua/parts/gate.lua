-- Part gate: which masters extend a vote or put it back.

-- gate_error returns nil on a voting master, whose gate is voting, and on a quarantined one,
-- whose gate begins with quarantined: it grants nothing to others meanwhile, and so a lease
-- survives a rolling restart of all masters.
local function gate_error(record, voting, quarantined)
  local gate = call('hget', record, 'gate') or ''
  if gate ~= voting and string.sub(gate, 1, #quarantined) ~= quarantined then
    return redis.error_reply('REDLOCK GATE ' .. gate)
  end
end

