-- After what `announce.lua` takes: 1, or 0 to resume. All processes look.
if ARGV[4] == '1' then
  redis.call('HSET', STATE, 'paused', 1)
else
  redis.call('HDEL', STATE, 'paused')
end
publish(-NEVER)
return 1
