-- How the record under KEYS[1] is read and written: for all that is not usual. A script makes its functions
-- anew whenever it is called, so what is usual is done before, in the scripts named so.

-- The head of the record, or nil if there is none, or none that has not expired. Not all of it:
-- most who look need no reply, and it may be long.
local function look()
  local head = redis.call('GETRANGE', KEYS[1], 0, HEAD_LEN - 1)
  if head == '' then
    return nil
  end
  if string.byte(head, 1) ~= VERSION then
    error({ err = 'SEMELVERSION ' .. string.byte(head, 1) })
  end
  if #head < HEAD_LEN then
    error({ err = 'SEMELSHORT ' .. #head })
  end
  local seen = {}
  local _
  _, seen.state, seen.fence, seen.created, seen.expires, seen.until_, seen.owner, seen.fingerprint =
    struct.unpack(HEAD, head)
  if seen.expires <= now then
    return nil
  end
  return seen
end

-- The whole value.
local function whole()
  return redis.call('GET', KEYS[1])
end

-- The last moment at which the server shows a record: one that expires now is gone. Lua would write a
-- large number with an exponent.
local function last_moment(record)
  return string.format('%.0f', record.expires - 1)
end

local function write(record, outcome)
  local head = struct.pack(HEAD, VERSION, record.state, record.fence, record.created,
    record.expires, record.until_, record.owner, record.fingerprint)
  redis.call('SET', KEYS[1], head .. (outcome or ''), 'PXAT', last_moment(record))
  return head
end

-- Must replicas be waited for behind this script? Then it has to write something, or there is nothing
-- to wait for: the answer rests on a record that they may not have yet.
local confirm = ARGV[1] == '1'

local function touch(record)
  if confirm then
    redis.call('PEXPIREAT', KEYS[1], last_moment(record))
  end
end

-- The answer that there is this record, with all of it. Read before it is touched, which may be its
-- last moment.
local function with_record(record)
  local value = whole()
  touch(record)
  return { 1, value }
end

-- Tells whoever waits for this record, on any node, that it is worth a look. Who may not be told has to
-- look by itself: the record is written already.
local function tell(state)
  redis.pcall('SPUBLISH', KEYS[1], state)
end

-- Why the holder of a lease may not write: nil if it may. Behind the first ARGV is the lease: fingerprint,
-- owner, fence. Verdicts: 1 settled, with the record; 2 superseded; 3 gone.
local function refusal(seen)
  if not seen or seen.fingerprint ~= ARGV[2] then
    return { 3 }
  elseif seen.owner == ARGV[3] and seen.fence == tonumber(ARGV[4]) then
    return nil
  elseif seen.state >= COMPLETED then
    return with_record(seen)
  end
  return { 2 }
end
