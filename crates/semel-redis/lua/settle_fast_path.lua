-- Records the outcome.
--
-- ARGV: whether to confirm, fingerprint, owner, fence, state, what is settled
-- Answers: 0 done, now or by an earlier try; else a refusal

-- Usually the lease is there as it was granted. It has not expired, or the server would not show it: a
-- key expires with its record, by the same clock that all scripts read. (A key that migrated from another
-- server may stay a moment longer: as if it had been settled in its last millisecond.) Numbers that are
-- text already need no formatting.
local head = redis.call('GETRANGE', KEYS[1], '0', '81')
if string.sub(head, 35) == ARGV[3] .. ARGV[2]
  and string.sub(head, 1, 10) == struct.pack('<BBI8', VERSION, LEASED, ARGV[4]) then
  local value = string.char(VERSION, ARGV[5]) .. string.sub(head, 3) .. ARGV[6]
  redis.call('SET', KEYS[1], value, 'KEEPTTL')
  -- For its waiters: see `publish`.
  redis.pcall('SPUBLISH', KEYS[1], ARGV[5])
  return 0
end

