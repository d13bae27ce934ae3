-- Changes a job's due time. ARGV, after those of `announce.lua`: `id` or `key`, its value, and the time.
-- Returns nothing if there is no such job; 0 if a handler has it; else 1 and the earliest time that was set.
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
unmark(job)
local earliest = leave_seat(job) and -NEVER or job.due
write()
earliest = math.min(earliest, call_parked(now))
announce(earliest)
return { 1, earliest }
