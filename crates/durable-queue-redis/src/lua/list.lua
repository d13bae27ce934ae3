-- Lists jobs by the time from which they can be claimed, then by id. ARGV: the maximum number, and optionally
-- the time and id after which to start. Returns the clock and for each job seven values, and three more if it has a
-- kind, failures or a group.
local now = clock()
local most, time, id = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]

-- Returns the number of members of a sorted set up to the position. A binary search by rank, which reads few
-- members with the same score and no others.
local function rank(key)
  if not time then
    return 0
  end
  local low = redis.call('ZCOUNT', key, '-inf', '(' .. ARGV[2])
  local high = redis.call('ZCOUNT', key, '-inf', ARGV[2])
  while low < high do
    local middle = math.floor((low + high) / 2)
    if redis.call('ZRANGE', key, middle, middle)[1] <= id then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

local function page(key)
  local first = rank(key)
  local jobs = {}
  local found = most > 0 and redis.call('ZRANGE', key, first, first + most - 1, 'WITHSCORES') or {}
  for index = 1, #found, 2 do
    push(jobs, { id = found[index], due = tonumber(found[index + 1]), place = key })
  end
  return jobs
end

local jobs, ids = merged(page(DUE), page(LEASES), most)
local answer = {}
load_extras(jobs)
for index, record in ipairs(fetch(JOBS, ids)) do
  local job = read(ids[index], record, jobs[index].place, jobs[index].due)
  local extras = jobs[index].extras or {}
  local has_texts = extras.kind or extras.failures or extras.group
  push(answer, tonumber(job.id), jobs[index].due)
  push(answer, job.at, (job.token and 1 or 0) + (job.started and 2 or 0) + (job.urgent and 4 or 0)
    + (extras.cancelled and 8 or 0) + (has_texts and 16 or 0))
  push(answer, job.attempts, job.key)
  push(answer, job.schedule)
  if has_texts then
    push(answer, extras.kind or false, extras.failures or false)
    push(answer, extras.group or false)
  end
end
return { now, answer }
