-- Sets or removes a limit. ARGV, after those of `announce.lua`: `groups` and the rule, or `none` to remove it; `kind`,
-- the kind, and its maximum or nothing; or `rate` and the kind, and for a rate that is set the number of tokens, the
-- time in which the bucket is filled, and the time of a token. Notifies all processes.
local now = clock()
local sort, kind = ARGV[4], ARGV[5]
local limiter = limiting()

-- Returns all held jobs, with their extras.
local function held()
  local found = redis.call('ZRANGE', LEASES, 0, -1, 'WITHSCORES')
  local ids, jobs = {}, {}
  for index = 1, #found, 2 do
    push(ids, found[index])
  end
  for index, record in ipairs(fetch(JOBS, ids)) do
    jobs[index] = read(ids[index], record, LEASES, tonumber(found[2 * index]))
  end
  load_extras(jobs)
  return jobs
end

-- Jobs of the kind that are held get places.
local function place_held(limit)
  for _, job in ipairs(held()) do
    if job.token and job.extras and job.extras.kind == limit.kind then
      job.limited = limit.kind
      change(job)
    end
  end
end

-- Held and called jobs of the kind lose their places.
local function leave_places(limit)
  for _, first in ipairs({ 'c', 'h' }) do
    for _, entry in ipairs(limiter.entries(limit, first, -1)) do
      local job = limiter.job_of(entry)
      if job then
        job.limited = nil
        change(job)
      end
    end
  end
end

local function set_kind()
  local limit = limiter.by_kind[kind]
  local is_new = not (limit and (limit.most or limit.tokens))
  local is_set = ARGV[6] ~= nil
  if is_new and not is_set then
    return call_parked(now)
  end
  limit = limit or { kind = kind, most = false, tokens = false, per = false, interval = false, full = -NEVER }
  if sort == 'kind' then
    limit.most = is_set and tonumber(ARGV[6])
  elseif is_set then
    local tokens, per, interval = tonumber(ARGV[6]), ARGV[7], tonumber(ARGV[8])
    if limit.tokens ~= tokens or limit.per ~= per then
      -- The bucket has no more tokens than before, and is not in debt.
      limit.full = math.min(limit.full, after(now, interval * tokens))
    end
    limit.tokens, limit.per, limit.interval = tokens, per, interval
  else
    limit.tokens, limit.per, limit.interval = false, false, false
  end
  if is_new then
    place_held(limit)
  elseif not limit.most and not limit.tokens then
    limit.full = -NEVER
    leave_places(limit)
  end
  write()
  limiter.save(limit)
  limiter.by_kind[kind] = limit
  limiter.call_parked(now)
end

-- Held jobs of groups get seats. Claims free the others from the former rule.
local function set_groups(rule)
  local former, number = rule_of_groups()
  if rule == former then
    return
  end
  number = string.format('%016.0f', number + 1)
  redis.call('HSET', STATE, 'groups', number .. rule)
  if rule == 'none' or rule == 'fair' then
    return
  end
  for _, job in ipairs(held()) do
    if job.token and group_of(job) then
      job.seat, job.waits = number, nil
      change(job)
    end
  end
  write()
end

if sort == 'groups' then
  set_groups(kind)
else
  set_kind()
end
publish(-NEVER)
return 1
