-- What the scripts share. `clock()` stands before it.
--
-- Times are whole microseconds since 1970: a double, which is the only number there is here and the
-- score of a sorted set, holds them exactly up to 2^53, in the year 2255. What is later is "never".
-- Ids are 16 digits, so that jobs of one score are in the order of their ids.
--
-- A job that no lease holds is in DUE by its time; one that a lease holds, in LEASES by the end of that. So
-- what a dead holder has left falls due by itself, and no look passes over what others hold. What is urgent is
-- in URGENT as well, with the same score. JOBS has a record of all that is not as with most jobs: see `pack`.
local DUE, LEASES, URGENT, JOBS, PAYLOADS, PENDING, RUNNING, DEAD, LETTERS, STATE = unpack(KEYS)
local NEVER = 9007199254740992
-- What must wait for another job of its key, which is due now, is looked at again after so long.
local SHORTLY = 1000
-- What a call is given at once: Lua's stack has 8000 places. Even, for pairs.
local CHUNK = 4000

local function after(time, delay)
  return math.min(time + delay, NEVER)
end

-- A time as a client gives it: `+` and a delay, or a point.
local function resolve(when, now)
  local time = tonumber(when)
  if string.byte(when) == 43 then
    return after(now, time)
  end
  return time
end

local function send(command, key, values)
  for first = 1, #values, CHUNK do
    redis.call(command, key, unpack(values, first, math.min(first + CHUNK - 1, #values)))
  end
end

-- The fields of a hash, in their order; false for one that is not there.
local function fetch(key, fields)
  local values = {}
  for first = 1, #fields, CHUNK do
    local last = math.min(first + CHUNK - 1, #fields)
    local part = redis.call('HMGET', key, unpack(fields, first, last))
    for index = 1, #part do
      values[first + index - 1] = part[index]
    end
  end
  return values
end

-- None if all is as with most jobs: no lease, no attempt yet, no key, bound or schedule, and not urgent. `at` is
-- the job's own time while a lease holds it, or while it is put off; else that is its score. `ran`: it has a
-- key, which it has given free by being started.
local function pack(job)
  if job.token or job.key or job.schedule or job.attempts > 0 or job.most < NEVER or job.urgent then
    local has_at = job.token or job.due ~= job.at
    return cmsgpack.pack(job.token, job.started, job.ran, job.attempts, has_at and job.at, job.most,
      job.key, job.schedule, job.urgent)
  end
end

local function is_text(value)
  return not value or type(value) == 'string'
end

-- A dead letter: its attempts, when it was buried, why, its key, its schedule, and whether it is urgent. Nothing if it
-- is gone, or cannot be read.
local function read_letter(letter)
  local is_read, attempts, buried, error, key, schedule, urgent = pcall(cmsgpack.unpack, letter)
  if is_read and type(error) == 'string' then
    return attempts, buried, error, key, schedule, urgent
  end
end

-- By ids, each job is one table, however often it is asked for.
local known = {}

-- `place` and `due` may be unknown: what is held is in LEASES. A job whose record cannot be read is broken: a
-- claim buries it (`turn.lua`), and no other call finds it.
local function read(id, record, place, due)
  local job = known[id]
  if job then
    return job
  end
  job = { id = id, place = place, due = due, at = due, attempts = 0, most = NEVER, has_record = record,
    token = false, started = false, ran = false, key = false, schedule = false, urgent = false }
  if record then
    local is_read, token, started, ran, attempts, at, most, key, schedule, urgent =
      pcall(cmsgpack.unpack, record)
    if is_read and type(attempts) == 'number' and type(most) == 'number' and is_text(token) and is_text(key)
      and is_text(schedule) then
      job.token, job.started, job.ran, job.attempts, job.most = token, started, ran, attempts, most
      -- A record of version 1 does not say whether it is urgent.
      job.key, job.schedule, job.urgent = key, schedule, urgent or false
      job.was_urgent = job.urgent
      if token then
        job.place = LEASES
      end
      job.at = at or job.at
    else
      job.is_broken = true
    end
  end
  known[id] = job
  return job
end

-- The job of this id, if there is one. The score is looked up, which `read` spares.
local function find(id)
  local job = known[id]
  if not job then
    local due, place = redis.call('ZSCORE', DUE, id), DUE
    if not due then
      due, place = redis.call('ZSCORE', LEASES, id), LEASES
    end
    if not due then
      return nil
    end
    job = read(id, redis.call('HGET', JOBS, id), place, tonumber(due))
  end
  return not (job.is_gone or job.is_broken) and job or nil
end

-- What was changed, to be written all at once, and by few calls.
local changed = {}

local function change(job)
  if not job.is_changed then
    job.is_changed = true
    changed[#changed + 1] = job
  end
end

-- By the key that they are for.
local function lists()
  return setmetatable({}, { __index = function(all, key)
    local list = {}
    all[key] = list
    return list
  end })
end

local function push(list, one, other)
  local count = #list
  list[count + 1] = one
  list[count + 2] = other
end

local function write()
  local removed, added, set, deleted = lists(), lists(), lists(), lists()
  for _, job in ipairs(changed) do
    local place = not job.is_gone and (job.token and LEASES or DUE)
    if job.place and job.place ~= place then
      push(removed[job.place], job.id)
    end
    if place and (job.place ~= place or job.is_moved) then
      push(added[place], job.due, job.id)
    end
    local is_urgent = place and job.urgent
    if is_urgent and (job.place ~= place or job.is_moved or not job.was_urgent) then
      push(added[URGENT], job.due, job.id)
    elseif job.was_urgent and not is_urgent then
      push(removed[URGENT], job.id)
    end
    job.was_urgent = is_urgent
    local record = place and pack(job)
    if record then
      push(set[JOBS], job.id, record)
    elseif job.has_record then
      push(deleted[JOBS], job.id)
    end
    if job.is_gone == 'wholly' then
      push(deleted[PAYLOADS], job.id)
    end
    job.place, job.has_record, job.is_moved, job.is_changed = place, record, false, false
  end
  changed = {}
  for command, lists_of_keys in pairs({ ZREM = removed, ZADD = added, HSET = set, HDEL = deleted }) do
    for key, list in pairs(lists_of_keys) do
      send(command, key, list)
    end
  end
end

-- The members of RUNNING: the length is part of it, so that no key is the beginning of another.
local function running(key)
  return string.format('%010.0f', #key) .. key
end

local function pending(key)
  local id = redis.call('HGET', PENDING, key)
  return id and find(id)
end

-- All of a key: the open one, and those that were started.
local function of_key(key)
  local member = running(key)
  local found = redis.call('ZRANGEBYLEX', RUNNING, '[' .. member .. '0', '(' .. member .. ':')
  local jobs = {}
  push(jobs, pending(key) or nil)
  for _, name in ipairs(found) do
    push(jobs, find(string.sub(name, -16)))
  end
  return jobs
end

-- Its holder hands it out at its time, and asks later: the last bit of the token says so.
local function is_unconfirmed(job)
  return job.token and string.byte(job.token, 16) % 2 == 1
end

-- A handler has it, or may have it: neither a cancel nor a reset may have it any more.
local function is_taken(job, now)
  return (job.started or is_unconfirmed(job) and job.at <= now) and job.due > now
end

-- By id, or by key: the open one, or else one that waits, or else one that runs.
local function named(kind, name, now)
  if kind == 'id' then
    return find(name)
  end
  local jobs = of_key(name)
  for _, job in ipairs(jobs) do
    if not job.ran or not is_taken(job, now) then
      return job
    end
  end
  return jobs[1]
end

-- No lease holds it any more, and it is due at this time.
local function free(job, at)
  job.token, job.started = false, false
  job.at, job.due, job.is_moved = at, at, true
  change(job)
end

-- A job that was started and is held no more is open again, unless another one of its key is.
local function reopen(job)
  if job.ran and not pending(job.key) then
    redis.call('ZREM', RUNNING, running(job.key) .. job.id)
    redis.call('HSET', PENDING, job.key, job.id)
    job.ran = false
  end
end

-- Of a serial key: what was put off is due at its own time. Answers whether there is any.
local function bring_back(key)
  local any = false
  for _, job in ipairs(of_key(key)) do
    if not job.token and job.due > job.at then
      free(job, job.at)
      any = true
    end
  end
  return any
end

-- As `free`; a time that was asked for moves the bound of a debounce with it.
local function put_at(job, at)
  job.most = math.max(job.most, at)
  free(job, at)
end

-- Its key is free with it. A job that is buried leaves its payload.
local function remove(job, is_gone)
  if job.ran then
    redis.call('ZREM', RUNNING, running(job.key) .. job.id)
  elseif job.key then
    redis.call('HDEL', PENDING, job.key)
  end
  job.is_gone = is_gone
  change(job)
end

-- The earliest moment of a sorted set.
local function first_of(key)
  local found = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return found[2] and tonumber(found[2]) or NEVER
end

-- Two lists of what is in sorted sets, each by time and id, as one; and the ids of that.
local function merged(ones, others, most)
  local all, ids = {}, {}
  local at_one, at_other = 1, 1
  while #all < most do
    local one, other = ones[at_one], others[at_other]
    if other and (not one or other.due < one.due or other.due == one.due and other.id < one.id) then
      one = other
      at_other = at_other + 1
    elseif one then
      at_one = at_one + 1
    else
      break
    end
    push(all, one)
    push(ids, one.id)
  end
  return all, ids
end

-- As the client reads it.
local function push_lease(answer, job, payload)
  push(answer, tonumber(job.id), job.at)
  push(answer, (job.started and 1 or 0) + (job.urgent and 2 or 0), job.attempts)
  push(answer, job.key, payload)
  push(answer, job.schedule)
end
