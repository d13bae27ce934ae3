-- Settles, then claims, without a visible intermediate state. ARGV, after those of `announce.lua`: the number
-- of settles, and for each its act, its id, its token and its value (a time, a lease, an error; for a job that is
-- kept, for how long, how long the attempt took, and `=` and the result, separated by spaces). Then the
-- claim's token, or nothing for no claim, and its max, start, ahead, horizon and lease, 1 if urgent jobs
-- come first, and the number of kinds that it lists, or nothing if it takes any, and each kind and its room. Then the
-- histories of failures: for each, the settle's number and the text.
--
-- Returns the clock; 1 if the queue is paused, plus 2 if a job has waited for a seat or a place that is now free; a
-- letter per settle: d done, s stale, n not due; for a claim, `first` and `first_free`; and the leases: see
-- `push_lease`.
--
-- This part settles, and ends the script if there is no claim. `kinds.lua` and `claim.lua` go on.
local now = clock()
local is_paused, rule = unpack(redis.call('HMGET', STATE, 'paused', 'groups'))
-- Nothing without a rule: see `groups.lua`.
local groups = rule and #rule > 16 and load_groups(rule)
local count = tonumber(ARGV[4])
-- Where the arguments of the claim begin.
local of_claim = 4 * count + 5
local token = ARGV[of_claim]
local kinds_count = token ~= '' and tonumber(ARGV[of_claim + 7])

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

local freed, any_waited = false, false
local any_ends = false
local verdicts = {}

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

if count > 0 then
  -- A marked job is not returned.
  local function is_ended(job)
    if is_marked(job) then
      remove(job, 'wholly')
      return true
    end
  end

  -- The attempt that the claim has started does not count.
  local function uncount(job)
    job.attempts = job.attempts - 1
  end

  local function release(job)
    if is_ended(job) then
      return
    end
    if job.started then
      uncount(job)
    end
    free(job, job.at)
    reopen(job)
    freed = true
  end

  local function retry(job, at, failures)
    if failures then
      change_extras(job, { failures = failures })
    end
    put_at(job, at)
    reopen(job)
    freed = true
  end

  local function repeat_at(job, at)
    if not job.schedule then
      -- A cancel has removed it.
      remove(job, 'wholly')
      return
    end
    if any_extras and extras_of(job).failures then
      change_extras(job, { failures = false })
    end
    -- A push during the run may have set an earlier time, of which the holder does not know.
    any_waited = any_waited or job.most < at
    free(job, math.min(at, job.most))
    job.attempts, job.most = 0, NEVER
    reopen(job)
    freed = true
  end

  local function keep(job, span, took, result)
    local until_when = after(now, tonumber(span))
    local kind = any_extras and extras_of(job).kind or false
    redis.call('HSET', DONE, job.id, cmsgpack.pack(job.attempts, now, tonumber(took), until_when, job.key, kind,
      string.sub(result, 1, 1) == '=' and string.sub(result, 2)))
    redis.call('ZADD', UNTIL, until_when, job.id)
    if job.key then
      redis.call('ZADD', RUNNING, 0, done_name(job.key, job.id))
    end
    remove(job, 'wholly')
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
    elseif not job.started then
      return 's'
    elseif act == 'ack' then
      remove(job, 'wholly')
    elseif act == 'extend' then
      job.due, job.is_moved = after(now, tonumber(value)), true
      change(job)
    elseif act == 'keep' then
      keep(job, string.match(value, '^(%d+) (%d+) ?(.*)$'))
    elseif act == 'bury' then
      bury(job, value, failures)
    elseif act == 'reject' then
      uncount(job)
      bury(job, value, failures)
    elseif is_ended(job) then
      return 'd'
    elseif act == 'again' then
      repeat_at(job, resolve(value, now))
    else
      if act == 'defer' then
        uncount(job)
      end
      retry(job, resolve(value, now), failures)
    end
    return 'd'
  end

  local histories = {}
  for index = of_claim + (token == '' and 1 or 8 + 2 * (kinds_count or 0)), #ARGV, 2 do
    histories[tonumber(ARGV[index])] = ARGV[index + 1]
  end

  local ids = {}
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
      if groups and ends_lease and verdicts[index] == 'd' then
        groups.end_lease(job, act)
      end
    end
  end
end
write()

-- Settled jobs are known without the end of their lease.
known = {}
if groups and any_ends then
  any_waited = groups.call_next(now) or any_waited
end
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

local most, start_most, ahead_most, horizon, lease = unpack(ARGV, of_claim + 1, of_claim + 5)
start_most, ahead_most, horizon = tonumber(start_most), tonumber(ahead_most), tonumber(horizon)
most = is_paused and 0 or math.min(tonumber(most), start_most + ahead_most)
local urgent_first = any_urgent and ARGV[of_claim + 6] == '1'

-- Expired leases and waiting jobs. Jobs that fall due later are only for claims ahead.
local last = ahead_most > 0 and after(now, horizon) or now
local until_when = after(now, tonumber(lease))
local begun, ahead, leases, lease_ids = 0, 0, {}, {}

local has_former = groups and groups.renew(now)
groups = groups and groups.has_rule and groups
local limiter, is_put_off, parked = any_limits and limiting(), false, 0

-- How many jobs to read next, if the last ones have to wait.
local function grown(count)
  return math.max(count, math.min(2 * count, PARK_LIMIT))
end
