-- Asks for the right to execute.
--
-- ARGV: whether to confirm, fingerprint, owner, lease in ms, retention in ms,
--       on_abandoned (0 execute again, 1 fail, 2 hold)
-- Answers: a head of a record: execute, under the lease in it
--          1 replay, with the record
--          2 in flight, with until
--          3 mismatch
--          4 unknown

-- Usually the key is free, and one command checks that and takes it.
local lease, ttl = tonumber(ARGV[4]), tonumber(ARGV[5])
-- A record outlives its lease, or a second one could be granted beside it (I1).
local expires = now + math.max(lease, ttl)
local fresh = struct.pack(HEAD, VERSION, LEASED, 1, now, expires, now + lease, ARGV[3], ARGV[2])
-- Lua would write some large numbers with an exponent.
if redis.call('SET', KEYS[1], fresh, 'PXAT', string.format('%.0f', expires - 1), 'NX') then
  return fresh
end

local is_full = false

