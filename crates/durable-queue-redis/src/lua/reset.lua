-- Gives a job another time. After what `announce.lua` takes: `id` or `key`, which, and the time. Answers
-- with nothing if there is none; 0 if a handler has it; else 1 and its time.
local now = clock()
local job = named(ARGV[4], ARGV[5], now)
if not job then
  return {}
end
if is_taken(job, now) then
  return { 0 }
end
if is_unconfirmed(job) then
  recall()
end
put_at(job, resolve(ARGV[6], now))
reopen(job)
write()
announce(job.due)
return { 1, job.due }
