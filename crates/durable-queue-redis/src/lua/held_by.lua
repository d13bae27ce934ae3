-- Returns the jobs of the claim with this token whose leases end within `lease`: see `push_lease`.
local token, last = ARGV[1], after(clock(), tonumber(ARGV[2]))
local ids = redis.call('ZRANGEBYSCORE', LEASES, '-inf', last)
local held, held_ids, answer = {}, {}, {}
for index, record in ipairs(fetch(JOBS, ids)) do
  local job = read(ids[index], record)
  if job.token == token then
    push(held, job)
    push(held_ids, job.id)
  end
end
load_extras(held)
for index, payload in ipairs(fetch(PAYLOADS, held_ids)) do
  -- A job without a payload is buried after its lease has ended.
  if payload then
    push_lease(answer, held[index], payload)
  end
end
return answer
