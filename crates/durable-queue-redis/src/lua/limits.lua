-- Limits of kinds: places and tokens of jobs, and jobs that wait for them. Requirements 13 to 15 of
-- `durable_queue::store` define the terms.
--
-- LIMITS has for each kind its maximum, the number of tokens and the time of its rate, the time of a token, and
-- when the bucket is full: see `limit.lua`. A kind without maximum and rate has lost its limits, but there are
-- still jobs that were parked because of them.
--
-- PLACES has an entry for each job with a place: see `place_of`. Its members have the same score, so they are
-- ordered as texts. An entry is valid if the job's record contains it. After a loss of records, entries remain until
-- they are in the way.
local PARK_LIMIT = 1000

-- Reads the limits, and returns the functions that need them. Only for queues with limits: each function costs time
-- when it is made, in each call of a script.
local function load_limits()
  -- `fenced_off`: jobs that have lost expired leases to others of their kind.
  local limits, fenced_off = {}, {}
  local found = redis.call('HGETALL', LIMITS)
  for index = 1, #found, 2 do
    local is_read, most, tokens, per, interval, full = pcall(cmsgpack.unpack, found[index + 1])
    if is_read and type(full) == 'number' then
      limits[found[index]] = { kind = found[index], most = most, tokens = tokens, per = per, interval = interval,
        full = full }
    end
  end

  local function save(limit)
    redis.call('HSET', LIMITS, limit.kind,
      cmsgpack.pack(limit.most, limit.tokens, limit.per, limit.interval, limit.full))
  end

  -- Bounds of the entries of a kind that begin with `first`.
  local function bounds(limit, first)
    local prefix = sized(limit.kind) .. first
    return '[' .. prefix, '(' .. prefix .. '~'
  end

  -- Returns up to `most` entries.
  local function entries(limit, first, most)
    local from, to = bounds(limit, first)
    return redis.call('ZRANGEBYLEX', PLACES, from, to, 'LIMIT', 0, most)
  end

  -- Returns the job of an entry, or nothing if the entry is invalid. Then it is removed.
  local function job_of(entry)
    local job = find(string.sub(entry, -16))
    if job and job.entry and job.entry .. job.id == entry then
      return job
    end
    redis.call('ZREM', PLACES, entry)
  end

  -- Counts the leases, which must have been written. Those that end during this script are also counted later.
  local function load_leases(limit, now)
    if limit.most and not limit.expired then
      local from, to = bounds(limit, 'h')
      local until_now = '(' .. sized(limit.kind) .. 'h' .. time_text(now) .. '~'
      limit.expired = redis.call('ZRANGEBYLEX', PLACES, from, until_now)
      limit.live = redis.call('ZLEXCOUNT', PLACES, '[' .. string.sub(until_now, 2), to)
    end
  end

  -- Returns the number of jobs that may be held in addition to live leases.
  local function free_places(limit, now)
    load_leases(limit, now)
    return limit.most and limit.most - limit.live or math.huge
  end

  -- Returns the time from which the bucket has a token.
  local function next_token(limit, at)
    return math.max(limit.full, at) - limit.interval * (limit.tokens - 1)
  end

  -- Returns the number of jobs that may be claimed for a start at `at`.
  local function room(limit, now, at)
    local free = free_places(limit, now)
    if limit.tokens then
      local others = at - next_token(limit, at)
      free = math.min(free, others < 0 and 0 or math.floor(others / limit.interval) + 1)
    end
    return math.max(free, 0)
  end

  -- Returns the limits of the job's kind.
  local function limit_of(job)
    local kind = extras_of(job).kind
    return kind and limits[kind]
  end

  -- Before a job with an expired lease is claimed or fenced off.
  local function forget_lease(job)
    local limit = job.entry and limits[job.limited]
    if not (limit and limit.expired) then
      return
    end
    for index, entry in ipairs(limit.expired) do
      if entry == job.entry .. job.id then
        table.remove(limit.expired, index)
        return
      end
    end
  end

  -- Like `fence_off`, within a claim.
  local function evict(job)
    forget_lease(job)
    fence_off(job)
  end

  local function park(job, limit)
    evict(job)
    job.limited, job.is_parked = limit.kind, true
    job.due, job.is_moved = NEVER, true
  end

  -- Gives a place to a job that is claimed. Fences off holders of expired leases that are in its way.
  local function take_place(job, now)
    forget_lease(job)
    local limit = limit_of(job)
    if not limit or not limit.most and not limit.tokens then
      if job.limited then
        job.limited, job.is_parked = nil, nil
      end
      return
    end
    job.limited, job.is_parked = limit.kind, nil
    if limit.tokens then
      limit.full = after(math.max(limit.full, job.at, now), limit.interval)
      limit.is_changed = true
    end
    if limit.most then
      load_leases(limit, now)
      while limit.expired[1] and limit.live + #limit.expired >= limit.most do
        local other = job_of(table.remove(limit.expired, 1))
        if other then
          fence_off(other)
          push(fenced_off, other)
        end
      end
      limit.live = limit.live + 1
    end
  end

  -- Returns the number of called jobs, which have not been claimed.
  local function count_called(limit)
    local count = 0
    for _, entry in ipairs(entries(limit, 'c', PARK_LIMIT)) do
      if job_of(entry) then
        count = count + 1
      end
    end
    return count
  end

  -- Calls as many parked jobs of a kind as there is room for. Returns the earliest due time of these jobs, or
  -- "never". All changes must have been written.
  local function call_kind(limit, now)
    local earliest = NEVER
    local most = math.min(room(limit, now, now), PARK_LIMIT)
    if most == 0 or #entries(limit, 'p', 1) == 0 then
      return earliest
    end
    most = most - count_called(limit)
    while most > 0 do
      local found = entries(limit, 'p', most)
      for _, entry in ipairs(found) do
        local job = job_of(entry)
        if job then
          most = most - 1
          job.due, job.is_moved, job.is_parked = job.at, true, nil
          if not limit.most and not limit.tokens then
            job.limited = nil
          end
          earliest = math.min(earliest, job.at)
          change(job)
        end
      end
      write()
      if #found == 0 then
        break
      end
    end
    return earliest
  end

  -- Calls as many parked jobs as there is room for. Returns the earliest due time of these jobs, or "never". All
  -- changes must have been written.
  local function call_parked(now)
    local earliest = NEVER
    for kind, limit in pairs(limits) do
      earliest = math.min(earliest, call_kind(limit, now))
      if not limit.most and not limit.tokens and #entries(limit, 'p', 1) == 0 then
        redis.call('HDEL', LIMITS, kind)
        limits[kind] = nil
      end
    end
    return earliest
  end

  -- Stores the tokens that were taken. Returns the next token of a rate whose kind has parked jobs, or "never". Also if
  -- they lack a place as well: a settle that makes room is not announced while there is no token. With `counts`, of
  -- the kinds for which it returns true.
  local function end_claim(now, counts)
    local first = NEVER
    for _, limit in pairs(limits) do
      if limit.is_changed then
        save(limit)
      end
      local next = limit.tokens and next_token(limit, now)
      if next and next > now and (not counts or counts(limit.kind)) and #entries(limit, 'p', 1) > 0 then
        first = math.min(first, next)
      end
    end
    return first
  end

  return { by_kind = limits, fenced_off = fenced_off, save = save, entries = entries, job_of = job_of,
    limit_of = limit_of, room = room, evict = evict, park = park, take_place = take_place, call_parked = call_parked,
    end_claim = end_claim }
end

local loaded

local function limiting()
  loaded = loaded or load_limits()
  return loaded
end

-- Calls as many parked jobs as there is room for. Returns the earliest due time of these jobs, or "never". All
-- changes must have been written.
local function call_parked(now)
  return any_limits and limiting().call_parked(now) or NEVER
end
