-- Extends a lease.
--
-- ARGV: whether to confirm, fingerprint, owner, fence, lease in ms
-- Answers: 0 done, with until, expires; else a refusal

local seen = look()
local refused = refusal(seen)
if refused then
  return refused
elseif seen.state >= COMPLETED then
  return with_record(seen)
elseif seen.state ~= LEASED then
  return { 2 }
end

-- Never shorter than the holder knows it to be, and the record outlives it (I1).
seen.until_ = math.max(now + tonumber(ARGV[5]), seen.until_)
seen.expires = math.max(seen.expires, seen.until_)
write(seen)
return { 0, seen.until_, seen.expires }
