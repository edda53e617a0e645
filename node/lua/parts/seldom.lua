-- Part seldom: what only readers need, locks that rest, and callers that ask again, give up, or take no place. These are half of the
-- functions of the slow ways, so they are created apart. It uses the parts redisson, names and queue, and
-- the call's state.

-- seldom returns these functions, which it creates when one of them is needed first.
local these
local function seldom()
  if these then
    return these
  end
-- @part rest
-- @part readers
-- @part turn
-- @part leave
  these = {
    rest_of = rest_of, lift = lift, after_reader = after_reader, after_writer = after_writer, leave = leave, dequeue = dequeue,
    holder_of = holder_of, can_join = can_join, is_deserted = is_deserted, has_turn = has_turn, heads = heads,
  }
  return these
end
