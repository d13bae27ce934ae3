-- Takes a job out. After what `announce.lua` takes: `id` or `key`, and which. Answers with nothing if there is none; 0 if a handler has it,
-- and then it comes no more; else 1, its payload and its attempts.
local job = named(ARGV[4], ARGV[5])
if not job then
  return {}
end
if is_taken(job, clock()) then
  if job.schedule then
    job.schedule = false
    change(job)
    write()
  end
  return { 0 }
end
if is_unconfirmed(job) then
  recall()
end
local payload = redis.call('HGET', PAYLOADS, job.id)
remove(job, 'wholly')
write()
return { 1, payload, job.attempts }
