-- Everything except a lease as it was granted. ARGV and answers: see the fast path.

local seen = look()
local refused = refusal(seen)
if refused then
  return refused
end

local state, outcome = tonumber(ARGV[5]), ARGV[6]
if seen.state == LEASED or seen.state == HELD then
  seen.state = state
  write(seen, outcome)
  publish(state)
  return { 0 }
elseif seen.state == RELEASED then
  return { 2 }
elseif seen.state == state and redis.call('GETRANGE', KEYS[1], HEAD_LEN, -1) == outcome then
  touch(seen)
  return { 0 }
end
return with_record(seen)
