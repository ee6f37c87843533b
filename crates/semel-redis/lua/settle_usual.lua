-- Records the outcome.
--
-- ARGV: whether to confirm, fingerprint, owner, fence, state, what is settled
-- Answers: 0 done, now or by an earlier try; else a refusal

-- Usually the lease is there as it was granted.
local head = redis.call('GETRANGE', KEYS[1], 0, HEAD_LEN - 1)
if #head == HEAD_LEN then
  local version, state, fence, _, expires, _, owner, fingerprint = struct.unpack(HEAD, head)
  if version == VERSION and state == LEASED and expires > now and fingerprint == ARGV[2]
    and owner == ARGV[3] and fence == tonumber(ARGV[4]) then
    local value = string.char(VERSION, ARGV[5]) .. string.sub(head, 3) .. ARGV[6]
    redis.call('SET', KEYS[1], value, 'PXAT', expires)
    -- Whoever waits for it: see `tell`.
    redis.pcall('SPUBLISH', KEYS[1], ARGV[5])
    return 0
  end
end

