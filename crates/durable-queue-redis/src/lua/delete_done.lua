-- Deletes done jobs whose time is over, the earliest first. ARGV: the maximum number. Returns their number.
local ids = redis.call('ZRANGEBYSCORE', UNTIL, '-inf', clock(), 'LIMIT', 0, ARGV[1])
send('ZREM', UNTIL, ids)
send('HDEL', DONE, ids)
return #ids
