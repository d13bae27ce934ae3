-- Returns the numbers of jobs, due jobs and dead letters; 1 if the queue is paused; the maximum of held jobs per key.
-- The server counts by ranks, so counts need no limit here.
local now = clock()
return {
  redis.call('ZCARD', DUE) + redis.call('ZCARD', LEASES),
  redis.call('ZCOUNT', DUE, '-inf', now) + redis.call('ZCOUNT', LEASES, '-inf', now),
  redis.call('ZCARD', DEAD),
  redis.call('HEXISTS', STATE, 'paused'),
  tonumber(redis.call('HGET', STATE, 'serial_keys')) or 0,
}
