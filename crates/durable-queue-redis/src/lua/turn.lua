-- Settles, then claims, without a visible intermediate state. ARGV, after those of `announce.lua`: the number
-- of settles, and for each its act, its id, its token and its value (a time, a lease, an error; for a job that is
-- kept, for how long, how long the attempt took, and `=` and the result, separated by spaces). Then the
-- claim's token, or nothing for no claim, and its max, start, ahead, horizon and lease, and 1 if urgent jobs
-- come first. Then the histories of failures: for each, the settle's number and the text.
--
-- Returns the clock; 1 if the queue is paused, plus 2 if a job has waited for a key or a place that is now free; a
-- letter per settle: d done, s stale, n not due; for a claim, `first` and `first_free`; and the leases: see
-- `push_lease`.
local now = clock()
local is_paused, per_key = unpack(redis.call('HMGET', STATE, 'paused', 'serial_keys'))
-- Maximum number of held jobs of each key.
per_key = tonumber(per_key)
local count = tonumber(ARGV[4])

-- Only the first start of a claim counts, so it can be repeated.
local function start(job, due)
  if not job.started then
    job.attempts = job.attempts + 1
  end
  close(job)
  job.started = true
  job.due, job.is_moved = due, true
  change(job)
end

-- Delay of a job that has to wait for another one of its key, which is due now.
local SHORTLY = 1000

local freed, any_waited = false, false
-- Keys of jobs that are no longer held, if keys have a limit.
local ended = {}
local any_ends = false

-- A marked job is not returned.
local function is_ended(job)
  if is_marked(job) then
    remove(job, 'wholly')
    return true
  end
end

local function release(job)
  if is_ended(job) then
    return
  end
  if job.started then
    job.attempts = job.attempts - 1
  end
  free(job, job.at)
  reopen(job)
  freed = true
end

local function bury(job, error, failures)
  if failures then
    change_extras(job, { failures = failures })
  end
  unmark(job)
  remove(job, 'but for its payload')
  redis.call('ZADD', DEAD, job.id, job.id)
  redis.call('HSET', LETTERS, job.id, cmsgpack.pack(job.attempts, now, error, job.key, job.schedule,
    job.urgent))
end

-- Returns the verdict. Only starts and releases also apply to jobs that were not started.
local function settle(act, job, value, failures)
  if act == 'start' then
    if is_paused or not job.started and job.at > now then
      return 'n'
    end
    start(job, after(now, tonumber(value)))
  elseif act == 'release' then
    release(job)
  elseif act == 'postpone' then
    -- The job is not claimed before that time.
    release(job)
    job.due = math.max(job.at, resolve(value, now))
  elseif not job.started then
    return 's'
  elseif act == 'ack' then
    remove(job, 'wholly')
  elseif act == 'extend' then
    job.due, job.is_moved = after(now, tonumber(value)), true
    change(job)
  elseif act == 'keep' then
    local span, took, result = string.match(value, '^(%d+) (%d+) ?(.*)$')
    local until_when = after(now, tonumber(span))
    local kind = any_extras and extras_of(job).kind or false
    redis.call('HSET', DONE, job.id, cmsgpack.pack(job.attempts, now, tonumber(took), until_when, job.key, kind,
      string.sub(result, 1, 1) == '=' and string.sub(result, 2)))
    redis.call('ZADD', UNTIL, until_when, job.id)
    remove(job, 'wholly')
  elseif act == 'bury' then
    bury(job, value, failures)
  elseif act == 'reject' then
    -- The attempt that the claim has started does not count.
    job.attempts = job.attempts - 1
    bury(job, value, failures)
  elseif is_ended(job) then
    return 'd'
  elseif act == 'retry' then
    if failures then
      change_extras(job, { failures = failures })
    end
    put_at(job, resolve(value, now))
    reopen(job)
    freed = true
  elseif not job.schedule then
    -- `again`, but a cancel has removed the schedule.
    remove(job, 'wholly')
  else
    if any_extras and extras_of(job).failures then
      change_extras(job, { failures = false })
    end
    local at = resolve(value, now)
    -- A push during the run may have set an earlier time, of which the holder does not know.
    any_waited = any_waited or job.most < at
    free(job, math.min(at, job.most))
    job.attempts, job.most = 0, NEVER
    reopen(job)
    freed = true
  end
  return 'd'
end

local histories = {}
for index = 4 * count + (ARGV[4 * count + 5] == '' and 6 or 12), #ARGV, 2 do
  histories[tonumber(ARGV[index])] = ARGV[index + 1]
end

local verdicts, ids = {}, {}
for index = 1, count do
  ids[index] = ARGV[4 * index + 2]
end
for index, record in ipairs(fetch(JOBS, ids)) do
  -- Only leased jobs can be settled. Their records are complete.
  if record and not read(ids[index], record).token then
    known[ids[index]] = nil
  end
end
for index = 1, count do
  local act, token, value = ARGV[4 * index + 1], ARGV[4 * index + 3], ARGV[4 * index + 4]
  local job = known[ids[index]]
  local ends_lease = act ~= 'start' and act ~= 'extend'
  any_ends = any_ends or ends_lease
  if not job or job.is_gone or job.token ~= token then
    verdicts[index] = 's'
  else
    verdicts[index] = settle(act, job, value, histories[index])
    -- Jobs that wait for a postponed job keep waiting. A marked one is gone.
    if per_key and job.key and ends_lease and verdicts[index] == 'd' and (act ~= 'postpone' or job.is_gone) then
      push(ended, job.key)
    end
  end
end
for _, key in ipairs(ended) do
  any_waited = bring_back(key) or any_waited
end
write()

local token, max, start_most, ahead_most, horizon, lease, urgent_first = unpack(ARGV, 4 * count + 5)
-- Settled jobs are known without the end of their lease.
known = {}
if any_ends or token ~= '' then
  local any_called = call_parked(now) < NEVER
  any_waited = any_waited or any_ends and any_called
end
freed = freed or any_waited
local flags = (is_paused and 1 or 0) + (any_waited and 2 or 0)
if token == '' then
  if freed then
    announce(first_of(DUE))
  end
  return { now, flags, table.concat(verdicts), false, false, {} }
end

start_most, ahead_most, horizon = tonumber(start_most), tonumber(ahead_most), tonumber(horizon)
local most = is_paused and 0 or math.min(tonumber(max), start_most + ahead_most)

-- How many jobs to read at once. Grows while they are postponed or parked.
local batch = most

-- Returns up to `batch` members of a sorted set, by time and id.
local function earliest(key, last)
  if most == 0 then
    return {}
  end
  local found = redis.call('ZRANGEBYSCORE', key, '-inf', last, 'WITHSCORES', 'LIMIT', 0, batch)
  local jobs = {}
  for index = 1, #found, 2 do
    push(jobs, { id = found[index], due = tonumber(found[index + 1]), place = key })
  end
  return jobs
end

-- Expired leases and waiting jobs. Jobs that fall due later are only for claims ahead.
local last = ahead_most > 0 and after(now, horizon) or now
local until_when = after(now, tonumber(lease))
local begun, ahead, leases, lease_ids = 0, 0, {}, {}

local limiter, is_put_off, parked = any_limits and limiting(), false, 0
local evict = limiter and limiter.evict or fence_off

-- A claim may take the job the horizon before its time.
local function put_off(job, until_when)
  evict(job)
  job.due, job.is_moved = math.max(job.at, after(until_when, horizon)), true
  is_put_off = true
end

-- For a maximum above one per key, which keeps no order. Returns whether fewer live leases hold other jobs of the
-- key. If not, postpones the job until enough of them have ended. If so, fences off holders of other jobs of the
-- key whose leases have expired and are in its way.
local function has_room_of_key(job)
  local held = {}
  for _, other in ipairs(of_key(job.key)) do
    if other ~= job and other.token then
      push(held, other)
    end
  end
  table.sort(held, function(one, other)
    return one.due < other.due or one.due == other.due and one.id < other.id
  end)
  local last = held[#held - per_key + 1]
  if last and last.due > now then
    put_off(job, last.due)
    return false
  end
  for index = 1, #held - per_key + 1 do
    evict(held[index])
  end
  return true
end

-- Returns whether the job can be claimed as far as its serial key is concerned: no live lease holds another
-- job of the key and, if this job is open, no started job of the key waits. If not, postpones the job. If so,
-- fences off holders of other jobs of the key whose leases have expired.
local function has_its_key(job)
  if per_key > 1 then
    return has_room_of_key(job)
  end
  local held, begun, others = 0, 0, {}
  for _, other in ipairs(of_key(job.key)) do
    if other ~= job and other.token then
      held = math.max(held, other.due)
      push(others, other)
    end
    -- A repeating job that waits for its next time does not come before an open one.
    local is_between_runs = other.schedule and other.attempts == 0 and other.at > now
    if other ~= job and other.ran and not job.ran and not is_between_runs then
      begun = math.max(begun, other.due, after(now, SHORTLY))
    end
  end
  if held <= now then
    -- A parked job has no time.
    held = begun < NEVER and begun or until_when
  end
  if held > now then
    put_off(job, held)
    return false
  end
  for _, other in ipairs(others) do
    evict(other)
  end
  return true
end

-- Returns whether the claim had room for the job.
local function claim(job, due)
  local begins = due <= now and begun < start_most
  if begun + ahead == most or not begins and ahead == ahead_most or parked == PARK_LIMIT then
    return false
  end
  local limit = limiter and limiter.limit_of(job)
  if limit and limiter.room(limit, now, math.max(job.at, now)) == 0 then
    limiter.park(job, limit)
    parked = parked + 1
    is_put_off = true
    return true
  end
  if per_key and job.key and not has_its_key(job) then
    return true
  end
  job.started = false
  if begins then
    begun = begun + 1
    start(job, until_when)
  else
    ahead = ahead + 1
    job.due, job.is_moved = math.max(until_when, job.at), true
    change(job)
  end
  job.token, job.is_claimed = token, true
  if limiter then
    limiter.take_place(job, now)
  end
  push(leases, job)
  push(lease_ids, job.id)
  return true
end

-- A partly deleted job cannot run. It becomes a dead letter with an error.
local function lose(job)
  bury(job, 'part of its data is gone, or cannot be read')
end

-- Postponed and parked jobs make room for later ones.
local function claim_all(some)
  repeat
    is_put_off = false
    some()
    if is_put_off then
      write()
      batch = math.max(batch, math.min(2 * batch, PARK_LIMIT))
    end
  until not is_put_off
end

-- Due urgent jobs. After a loss of part of the data, URGENT may have entries of jobs that are gone or not urgent.
if any_urgent and urgent_first == '1' then
  claim_all(function()
    for _, urgent in ipairs(earliest(URGENT, now)) do
      local job = find(urgent.id)
      if not (job and job.urgent) then
        redis.call('ZREM', URGENT, urgent.id)
      elseif not job.is_claimed and not claim(job, job.due) then
        break
      end
    end
  end)
end

claim_all(function()
  if #leases == most then
    return
  end
  local candidates, candidate_ids = merged(earliest(LEASES, now), earliest(DUE, last), batch)
  local jobs = {}
  for index, record in ipairs(fetch(JOBS, candidate_ids)) do
    local candidate = candidates[index]
    jobs[index] = read(candidate.id, record, candidate.place, candidate.due)
  end
  if limiter then
    load_extras(jobs)
  end
  for index, job in ipairs(jobs) do
    local candidate = candidates[index]
    -- Skips jobs just claimed as urgent ones.
    if job.is_broken then
      lose(job)
    elseif not job.is_claimed and not claim(job, candidate.due) then
      break
    end
  end
end)
write()

local answer = {}
load_extras(leases)
for index, payload in ipairs(fetch(PAYLOADS, lease_ids)) do
  if payload then
    push_lease(answer, leases[index], payload)
  else
    lose(leases[index])
  end
end
write()
call_parked(now)

local first_free = first_of(DUE)
local first = math.min(first_free, first_of(LEASES), limiter and limiter.end_claim(now) or NEVER)
if freed then
  announce(first_free)
end
if first > now then
  -- The caller may wait until then, or until the horizon before it.
  local waits_for = after(first, horizon)
  if head() < waits_for then
    set_head(waits_for)
  end
end

return { now, flags, table.concat(verdicts), first, first_free, answer }
