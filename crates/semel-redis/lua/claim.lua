-- There is a record: its state decides the claim. ARGV and answers: see the fast path.

local fingerprint, owner, on_abandoned = ARGV[2], ARGV[3], ARGV[6]
local seen = look()

local function grant(record)
  record.state = LEASED
  record.owner = owner
  record.until_ = math.max(now + lease, record.until_ or 0)
  -- Retention counts from the latest grant. A record outlives its lease, or a second one could be granted
  -- beside it (I1).
  record.expires = math.max(record.expires, now + ttl, record.until_)
  return write(record)
end

-- A new execution leads to an outcome, which takes memory. Work that was admitted before goes on.
local function begin(record)
  if is_full then
    return { 5 }
  end
  return grant(record)
end

if not seen then
  return begin({ fingerprint = fingerprint, fence = 1, created = now, expires = now })
end

-- First, in every state: another request must never learn of this one (I8).
if seen.fingerprint ~= fingerprint then
  return { 3 }
end

if seen.state >= COMPLETED then
  return with_record(seen)
elseif seen.state == HELD then
  return { 4 }
elseif seen.state == RELEASED and seen.owner == owner then
  -- A delayed copy of the claim: its owner has released, and its attempt is over.
  return { 2, now }
elseif seen.state == LEASED and seen.owner == owner then
  -- The same claim, repeated after a timeout: its lease never gets shorter.
  return grant(seen)
elseif seen.state == LEASED and now < seen.until_ then
  return { 2, seen.until_ }
elseif seen.state == LEASED and on_abandoned == '2' then
  return { 4 }
elseif seen.state == LEASED and on_abandoned == '1' then
  seen.state = ABANDONED
  write(seen)
  publish(seen.state)
  return { 1, whole() }
end

-- Released, or abandoned: the next lease has the next fence.
seen.fence = seen.fence + 1
seen.until_ = nil
return begin(seen)
