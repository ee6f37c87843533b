-- The server's clock. Declared as a script that writes, though it does not: a server that would
-- refuse a claim, being a replica or full or unable to save, refuses this. With the flag allow-oom it is
-- asked again of one that is only full. If replicas are waited for it
-- does write, a key that is nobody's record: one that has that would have a claim, too.

if confirm then
  redis.call('SET', KEYS[1], '', 'PX', '60000')
end
return { 0, now }
