-- How the record under KEYS[1] lies there, and the clock. Every script begins with this.
--
-- A value is a head, and for a settled record what was settled:
--
--   1  version, 1
--   1  state: 0 leased, 1 held, 2 released, 3 completed, 4 failed, 5 abandoned (settled: 3 and above)
--   8  fence
--   8  created   } milliseconds since 1970, by this server's clock
--   8  expires   }
--   8  until     } when the latest lease runs out, or ran out
--   16 owner
--   32 fingerprint
--   2 + n, m     completed, failed: the id of what was made with its length, then the reply
--
-- Numbers are little-endian. Those of Lua are exact up to 2^53, and none of these gets there.
--
-- The key expires by itself, at `expires`. That only gives space back: whether a record has expired
-- is decided by the clock here, in every script (trap 16).

local VERSION = 1
local HEAD = '<BBI8I8I8I8c16c32'
local HEAD_LEN = 82

local LEASED, HELD, RELEASED, COMPLETED, ABANDONED = 0, 1, 2, 3, 5

-- The one clock of all nodes (trap 18). Asked once, so that a script lives in one moment.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

