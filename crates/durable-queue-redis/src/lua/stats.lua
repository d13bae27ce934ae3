-- Returns the numbers of jobs, due jobs and dead letters; 1 if the queue is paused; 1 if its keys are serial.
-- The server counts by ranks, so counts need no limit here.
local now = clock()
return {
  redis.call('ZCARD', DUE) + redis.call('ZCARD', LEASES),
  redis.call('ZCOUNT', DUE, '-inf', now) + redis.call('ZCOUNT', LEASES, '-inf', now),
  redis.call('ZCARD', DEAD),
  redis.call('HEXISTS', STATE, 'paused'),
  redis.call('HEXISTS', STATE, 'serial_keys'),
}
