-- Cancels a job. ARGV, after those of `announce.lua`: `id` or `key`, and its value. Returns nothing if there
-- is no such job; 0 if a handler has it; else 1, its payload and its attempts. Jobs that handlers have are
-- marked: this one, or all of the key.
local now = clock()
local job = named(ARGV[4], ARGV[5], now)
if not job then
  return {}
end
local is_recalled = false
for _, one in ipairs(ARGV[4] == 'key' and of_key(ARGV[5]) or { job }) do
  if one.schedule then
    one.schedule = false
    change(one)
  end
  if is_taken(one, now) then
    close(one)
    change_extras(one, { cancelled = true })
    is_recalled = true
  end
end
-- The calling process is notified, too.
if is_recalled or is_unconfirmed(job) then
  recall()
end
if is_taken(job, now) then
  write()
  return { 0 }
end
local payload = redis.call('HGET', PAYLOADS, job.id)
local frees = leave_seat(job)
remove(job, 'wholly')
write()
if frees then
  recall()
end
if call_parked(now) < NEVER then
  recall()
end
return { 1, payload, job.attempts }
