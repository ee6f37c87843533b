-- Records the outcome.
--
-- ARGV: fingerprint, owner, fence, state, what is settled, whether to confirm (1) for a WAIT
-- Answers: 0 done, now or by an earlier try; else a refusal

local seen = look(now_ms())
local refused = refusal(seen)
if refused then
  return refused
end

local state, settled = tonumber(ARGV[4]), ARGV[5]
if seen.state == LEASED or seen.state == HELD then
  seen.state = state
  write(seen, settled)
  tell(state)
  return { 0 }
elseif seen.state == RELEASED then
  return { 2 }
elseif seen.state == state and redis.call('GETRANGE', KEYS[1], HEAD_LEN, -1) == settled then
  confirm(seen, ARGV[6])
  return { 0 }
end
return { 1, whole() }
