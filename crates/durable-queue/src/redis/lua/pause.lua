-- After what `announce.lua` takes: 1, or 0 to resume. All look.
if ARGV[4] == '1' then
  redis.call('HSET', STATE, 'paused', 1)
else
  redis.call('HDEL', STATE, 'paused')
end
tell(-NEVER)
return 1
