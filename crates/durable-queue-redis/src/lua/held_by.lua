-- What a claim of this token holds that ends within its lease: seven values of each.
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
for index, payload in ipairs(fetch(PAYLOADS, held_ids)) do
  -- What has none is buried when its lease has ended.
  if payload then
    push_lease(answer, held[index], payload)
  end
end
return answer
