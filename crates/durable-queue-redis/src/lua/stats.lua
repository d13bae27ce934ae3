-- How many jobs there are, how many are due, how many are dead letters; 1 if the queue is paused, and 1 if
-- its keys are serial. The server counts by ranks, so no count needs a limit here.
local now = clock()
return {
  redis.call('ZCARD', DUE) + redis.call('ZCARD', LEASES),
  redis.call('ZCOUNT', DUE, '-inf', now) + redis.call('ZCOUNT', LEASES, '-inf', now),
  redis.call('ZCARD', DEAD),
  redis.call('HEXISTS', STATE, 'paused'),
  redis.call('HEXISTS', STATE, 'serial_keys'),
}
