-- ARGV: 1 to run at most one job of each key at a time, else 0.
if ARGV[1] == '1' then
  redis.call('HSET', STATE, 'serial_keys', 1)
else
  redis.call('HDEL', STATE, 'serial_keys')
end
return 1
