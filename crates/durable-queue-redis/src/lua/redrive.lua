-- Makes dead letters jobs again, but for those whose key is pending. After what `announce.lua` takes: the
-- ids. Answers how many.
local now = clock()
local count = 0
for index = 4, #ARGV do
  local id = ARGV[index]
  local _, _, error, key, schedule, urgent = read_letter(redis.call('HGET', LETTERS, id))
  if error and not (key and pending(key)) then
    redis.call('ZREM', DEAD, id)
    redis.call('HDEL', LETTERS, id)
    local job = read(id, false, false, now)
    -- A letter of version 1 does not say whether it is urgent.
    job.key, job.schedule, job.urgent = key, schedule, urgent or false
    change(job)
    if key then
      -- The next one of its key finds it.
      redis.call('HSET', PENDING, key, id)
    end
    count = count + 1
  end
end
write()
if count > 0 then
  announce(now)
end
return count
