-- Last part of `turn.lua`: claims.

-- Jobs that have got their seats by this claim, which then goes on with them.
local called = {}
-- All jobs that were called by this claim.
local all_called = {}

-- A job may have left its seat.
local function pass_on(job, is_parked)
  local before = #called
  if groups and groups.pass_on(job, now, is_parked, called) then
    is_put_off = true
    for index = before + 1, #called do
      push(all_called, called[index])
    end
  end
end

-- Claims a job, or lets it wait for its group or its kind. Returns whether the claim had room for it. `room`: that of
-- its kind, if the claim lists kinds.
local function claim(job, due, room)
  local begins = due <= now and begun < start_most
  if begun + ahead == most or not begins and ahead == ahead_most or parked == PARK_LIMIT then
    return false
  end
  if groups and not groups.has_seat(job, math.max(now, job.at)) then
    parked = parked + 1
    is_put_off = true
    return true
  end
  local limit = limiter and limiter.limit_of(job)
  if limit and limiter.room(limit, now, math.max(job.at, now)) == 0 then
    limiter.park(job, limit)
    parked = parked + 1
    is_put_off = true
    pass_on(job, true)
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
  if room then
    room.left = room.left - 1
  end
  push(leases, job)
  push(lease_ids, job.id)
  pass_on(job, false)
  return true
end

-- A partly deleted job cannot run. It becomes a dead letter with an error.
local function lose(job)
  bury(job, 'part of its data is gone, or cannot be read')
  if groups then
    groups.end_lease(job)
  end
end

-- Returns whether the claim may have room for other jobs.
local function visit(job, due, room)
  if job.is_broken then
    lose(job)
    return true
  end
  return job.is_claimed or job.is_called or room and room.left == 0 or claim(job, due, room)
end

if kinds then
  if urgent_first and most > 0 then
    kinds.each({ u = now }, visit)
  end
  if #leases < most then
    kinds.each({ f = last, h = now }, visit)
  end
else
  -- How many jobs to read at once.
  local batch = most

  -- Returns up to `batch` members of a sorted set, by time and id.
  local function earliest(key, last)
    if most == 0 then
      return {}
    end
    -- Those that were called are among the first.
    local count = batch + #called
    local found = redis.call('ZRANGEBYSCORE', key, '-inf', last, 'WITHSCORES', 'LIMIT', 0, count)
    local jobs = {}
    for index = 1, #found, 2 do
      push(jobs, { id = found[index], due = tonumber(found[index + 1]), place = key })
    end
    return jobs
  end

  -- Jobs that have to wait make room for later ones.
  local function claim_all(some)
    repeat
      is_put_off = false
      some()
      if is_put_off then
        write()
        batch = grown(batch)
      end
    until not is_put_off
  end

  -- Due urgent jobs. After a loss of part of the data, URGENT may have entries of jobs that are gone or not urgent.
  if urgent_first then
    claim_all(function()
      for _, urgent in ipairs(earliest(URGENT, now)) do
        local job = find(urgent.id)
        if not (job and job.urgent) then
          redis.call('ZREM', URGENT, urgent.id)
        elseif not visit(job, job.due) then
          break
        end
      end
    end)
  end

  claim_all(function()
    if #leases == most then
      return
    end
    local candidates, candidate_ids = merged(earliest(LEASES, now), earliest(DUE, last), batch + #called)
    local jobs = {}
    for index, record in ipairs(fetch(JOBS, candidate_ids)) do
      local candidate = candidates[index]
      jobs[index] = read(candidate.id, record, candidate.place, candidate.due)
    end
    if limiter or groups then
      load_extras(jobs)
    end
    for index, job in ipairs(jobs) do
      -- Skips jobs just claimed as urgent ones.
      if not visit(job, candidates[index].due) then
        break
      end
    end
  end)
end

-- They come behind all that could be claimed before them.
while #called > 0 and #leases < most do
  local jobs = called
  called = {}
  local function is_first(job)
    return urgent_first and job.urgent and job.due <= now
  end
  table.sort(jobs, function(one, other)
    if is_first(one) ~= is_first(other) then
      return is_first(one)
    end
    return one.due < other.due or one.due == other.due and one.id < other.id
  end)
  for _, job in ipairs(jobs) do
    job.is_called = nil
  end
  for _, job in ipairs(jobs) do
    local room = kinds and kinds.room_of(extras_of(job).kind)
    if job.due <= last and (room or not kinds) and not visit(job, job.due, room) then
      break
    end
  end
end
load_extras(leases)
write()

local answer = {}
for index, payload in ipairs(fetch(PAYLOADS, lease_ids)) do
  if payload then
    push_lease(answer, leases[index], payload)
  else
    lose(leases[index])
  end
end
write()
if groups then
  groups.call_next(now)
end
call_parked(now)

local of_all = first_of(DUE)
local first_free, first_leased = of_all, first_of(LEASES)
if kinds then
  first_free = kinds.first_in('f', first_free)
  first_leased = first_leased < first_free and kinds.first_in('h', first_leased) or NEVER
end
local next_token = limiter and limiter.end_claim(now, kinds and kinds.has_room) or NEVER
local first = math.min(first_free, first_leased, next_token, has_former and now or NEVER)
if kinds then
  -- Other processes and other calls of this one may have found nothing, and sleep.
  for _, job in ipairs(all_called) do
    if not job.token and not kinds.has_room(extras_of(job).kind) and not any_waited then
      any_waited, freed, flags = true, true, flags + 2
    end
  end
end
if freed then
  announce(of_all)
end
if first > now then
  -- The caller may wait until then, or until the horizon before it.
  local waits_for = after(first, horizon)
  if head() < waits_for then
    set_head(waits_for)
  end
end

return { now, flags, table.concat(verdicts), first, first_free, answer }
