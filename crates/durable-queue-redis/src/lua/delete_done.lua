-- Deletes done jobs whose time is over, the earliest first. ARGV: the maximum number. Returns their number.
local ids = redis.call('ZRANGEBYSCORE', UNTIL, '-inf', clock(), 'LIMIT', 0, ARGV[1])
local names = {}
for index, record in ipairs(fetch(DONE, ids)) do
  local key = record and select(5, cmsgpack.unpack(record))
  push(names, key and done_name(key, ids[index]) or nil)
end
send('ZREM', RUNNING, names)
send('ZREM', UNTIL, ids)
send('HDEL', DONE, ids)
return #ids
