-- The server's clock. Declared as a script that writes, though it does not: a server that would
-- refuse a claim, being a replica or full or unable to save, refuses this.

return now_ms()
