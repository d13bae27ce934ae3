-- Makes dead letters jobs again, except those whose key has an open job, and repeating ones whose key has a repeating
-- job. ARGV, after those of `announce.lua`:
-- the ids. Returns the number of jobs.
local now = clock()
local jobs = {}
for index = 4, #ARGV do
  local id = ARGV[index]
  local _, _, error, key, schedule, urgent = read_letter(redis.call('HGET', LETTERS, id))
  if error and not (key and (pending(key) or schedule and begun_schedule(key))) then
    redis.call('ZREM', DEAD, id)
    redis.call('HDEL', LETTERS, id)
    local job = read(id, false, false, now)
    job.key, job.schedule, job.urgent = key, schedule, urgent
    change(job)
    jobs[#jobs + 1] = job
    if key then
      -- So that a later letter of the same call finds it.
      redis.call('HSET', PENDING, key, id)
    end
  end
end
load_extras(jobs)
write()
if #jobs > 0 then
  announce(now)
end
return #jobs
