-- The layout of the record under KEYS[1]. Every script begins with this.
--
-- A value is a head, and for a settled record what was settled:
--
--   1  version, 1
--   1  state: 0 leased, 1 held, 2 released, 3 completed, 4 failed, 5 abandoned (settled: 3 and above)
--   8  fence
--   8  created   } milliseconds since 1970, by this server's clock
--   8  expires   }
--   8  until     } the end of the latest lease
--   16 owner
--   32 fingerprint
--   2 + n, m     completed, failed: the result id with its length, then the reply
--
-- Numbers are little-endian. Numbers in Lua are exact up to 2^53, and none of these gets there.
--
-- The key expires by itself, with its record: the server shows it up to the last millisecond before
-- `expires`. Scripts that know the time check the expiry themselves (trap 16).

local VERSION = 1
local HEAD = '<BBI8I8I8I8c16c32'
local HEAD_LEN = 82

local LEASED, HELD, RELEASED, COMPLETED, ABANDONED = 0, 1, 2, 3, 5
