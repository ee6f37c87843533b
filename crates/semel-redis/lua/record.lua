-- Reading and writing the record under KEYS[1], for everything outside the fast paths. A script creates
-- its functions again in every call, so the fast paths come before these.

-- The head of the record, or nil if there is none, or only an expired one. The head alone: most callers
-- need no reply, and it may be long.
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

-- The last millisecond at which the server shows a record: one that expires now is gone. Lua would write
-- a large number with an exponent.
local function last_moment(record)
  return string.format('%.0f', record.expires - 1)
end

local function write(record, outcome)
  local head = struct.pack(HEAD, VERSION, record.state, record.fence, record.created,
    record.expires, record.until_, record.owner, record.fingerprint)
  redis.call('SET', KEYS[1], head .. (outcome or ''), 'PXAT', last_moment(record))
  return head
end

-- Whether replicas are waited for after this script. Then it has to write something, or there is nothing
-- to wait for: the answer depends on a record that they may not have yet.
local confirm = ARGV[1] == '1'

local function touch(record)
  if confirm then
    redis.call('PEXPIREAT', KEYS[1], last_moment(record))
  end
end

-- The answer with the whole record. Read before it is touched, because the touch may be its last moment.
local function with_record(record)
  local value = whole()
  touch(record)
  return { 1, value }
end

-- Notifies the waiters of this record on all nodes. If the user lacks the right to publish they have to
-- poll; the record is written already.
local function publish(state)
  redis.pcall('SPUBLISH', KEYS[1], state)
end

-- Why the holder of a lease may not write; nil if it may. After the first ARGV comes the lease:
-- fingerprint, owner, fence. Verdicts: 1 settled, with the record; 2 superseded; 3 gone.
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
