-- Hands a lease back, as released (2) or held (1).
--
-- ARGV: fingerprint, owner, fence, state, whether to confirm (1) for a WAIT
-- Answers: 0 done, now or by an earlier try; else a refusal

local seen = look(now_ms())
local refused = refusal(seen)
if refused then
  return refused
end

local state = tonumber(ARGV[4])
if seen.state == LEASED then
  seen.state = state
  write(seen)
  tell(state)
  return { 0 }
elseif seen.state == state then
  confirm(seen, ARGV[5])
  return { 0 }
elseif seen.state >= COMPLETED then
  return { 1, whole() }
end
return { 2 }
