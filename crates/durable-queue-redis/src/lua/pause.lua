-- Pauses or resumes. ARGV, after those of `announce.lua`: 1, or 0 to resume. Notifies all processes.
if ARGV[4] == '1' then
  redis.call('HSET', STATE, 'paused', 1)
else
  redis.call('HDEL', STATE, 'paused')
end
publish(-NEVER)
return 1
