-- The server's clock. Declared as a script that writes, though it does not: a server that would refuse a
-- claim (a replica, or full, or unable to save) refuses this, too. It is repeated with the flag allow-oom
-- on a server that is only full. If replicas are waited for it does write, a key of its own: a replica
-- that has that key would have a claim, too.

if confirm then
  redis.call('SET', KEYS[1], '', 'PX', '60000')
end
return { 0, now }
