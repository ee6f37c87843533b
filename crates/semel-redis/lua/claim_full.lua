-- Asks for the right to execute, on a server that has refused the usual claim because its memory is full.
--
-- ARGV: as for the usual claim
-- Answers: as the usual claim, and
--          5 a new execution would begin here, for whose outcome there is no room

local lease, ttl = tonumber(ARGV[4]), tonumber(ARGV[5])
local is_full = true

