-- The one clock of all nodes (trap 18). Read once, so that a script runs at one point in time.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

