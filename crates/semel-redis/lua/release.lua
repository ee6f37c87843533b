-- Hands a lease back, as released (2) or held (1).
--
-- ARGV: whether to confirm, fingerprint, owner, fence, state
-- Answers: 0 done, now or by an earlier try; else a refusal

local seen = look()
local refused = refusal(seen)
if refused then
  return refused
end

local state = tonumber(ARGV[5])
if seen.state == LEASED then
  seen.state = state
  write(seen)
  publish(state)
  return { 0 }
elseif seen.state == state then
  touch(seen)
  return { 0 }
elseif seen.state >= COMPLETED then
  return with_record(seen)
end
return { 2 }
