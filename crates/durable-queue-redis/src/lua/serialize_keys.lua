-- 1 if one job of each key is to run at a time, or 0.
if ARGV[1] == '1' then
  redis.call('HSET', STATE, 'serial_keys', 1)
else
  redis.call('HDEL', STATE, 'serial_keys')
end
return 1
