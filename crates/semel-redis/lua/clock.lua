-- The one clock of all nodes (trap 18). Asked once, so that a script lives in one moment.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

