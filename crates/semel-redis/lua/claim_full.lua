-- Asks for the right to execute, on a server that has refused the claim's fast path because its memory is
-- full.
--
-- ARGV: as for the fast path
-- Answers: as the fast path, and
--          5 a new execution would begin here, but there is no memory for its outcome

local lease, ttl = tonumber(ARGV[4]), tonumber(ARGV[5])
local is_full = true

