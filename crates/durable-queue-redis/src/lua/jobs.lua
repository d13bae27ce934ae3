-- Jobs and their records.

-- Returns the fields of a hash in order; false for missing ones. With the command ZMSCORE, the scores of members of a
-- sorted set.
local function fetch(key, fields, command)
  local values = {}
  for first = 1, #fields, CHUNK do
    local last = math.min(first + CHUNK - 1, #fields)
    local part = redis.call(command or 'HMGET', key, unpack(fields, first, last))
    for index = 1, #part do
      values[first + index - 1] = part[index]
    end
  end
  return values
end

-- Texts that begin with their length, so that none is a prefix of another.
local function sized(text)
  return string.format('%010.0f', #text) .. text
end

-- Formats a time so that texts have the order of times.
local function time_text(time)
  if time < 0 then
    return '0' .. string.format('%016.0f', NEVER + time)
  end
  return '1' .. string.format('%016.0f', time)
end

-- Returns the entry in KINDS, without the id, of a job of a kind. The entries of a kind begin alike. Then follow `h`
-- for a leased job, or `f` for a free one, and the time from which it can be claimed.
local function listing(kind, is_leased, due)
  return sized(kind) .. (is_leased and 'h' or 'f') .. time_text(due)
end

-- Returns the other entry that an urgent job has, whether it is leased or free.
local function urgent_listing(listed)
  return string.sub(listed, 1, -19) .. 'u' .. string.sub(listed, -17)
end

-- Formats the position in the order of calls, without the id: urgent jobs first, then by due time.
local function line(urgent, at)
  return (urgent and 0 or 1) .. time_text(at)
end

-- Returns the entry in PLACES, without the id, of a job with a place. The entries of a kind begin alike. Then
-- follow `h` and the end of its lease for a held job, `c` for a called one, and for a parked one `p` and its
-- position in the order of calls.
local function place_of(job)
  if job.is_parked then
    return sized(job.limited) .. 'p' .. line(job.urgent, job.at)
  elseif job.token then
    return sized(job.limited) .. 'h' .. time_text(job.due)
  end
  return sized(job.limited) .. 'c'
end

-- Returns the entry in GROUPS, without the id, of a job that no claim has looked at. The entries of a group begin
-- alike. Then follows its position in the order of calls.
local function fresh(group, urgent, at)
  return 'f' .. sized(group) .. line(urgent, at)
end

-- Returns what is stored of a job of a group, without the id.
--
-- A job with a seat, or one that waits for a seat, has an entry in GROUPS. It begins with the number of the rule, in 16
-- digits, and the group. Then follow `s` for a seat, or `w` and the position in the order of calls. So the entries of
-- former rules come first. A job that can be claimed without a seat is fresh, and has an entry, too.
--
-- The others, which are held or parked without a seat, have `h` and the group in their record, and no entry. So a
-- settle knows the group.
local function standing(job, group)
  if job.waits then
    return job.seat .. sized(group) .. 'w' .. line(job.urgent, job.at)
  elseif job.seat then
    return job.seat .. sized(group) .. 's'
  elseif job.token or job.is_parked then
    return 'h' .. sized(group)
  end
  return fresh(group, job.urgent, job.at)
end

-- Returns no record for ordinary jobs: without lease, attempt, key, bound, schedule, place and seat, not urgent or
-- postponed. `at` is the due time of a leased or postponed job; for others, it is the score. `ran`: the job was
-- started, so its key may have another open job. `entry`: see `place_of`. `listed`: see `listing`; without it, a settle
-- would know neither the kind nor the end of the lease. `stands`: see `standing`; that of a fresh job follows from
-- other values.
local function pack(job)
  local has_at = job.token or job.due ~= job.at
  if job.stands and string.byte(job.stands) ~= 102 then
    return cmsgpack.pack(job.token, job.started, job.ran, job.attempts, has_at and job.at, job.most,
      job.key, job.schedule, job.urgent, job.entry or false, job.listed or false, job.stands)
  elseif job.entry or job.token and job.listed then
    return cmsgpack.pack(job.token, job.started, job.ran, job.attempts, has_at and job.at, job.most,
      job.key, job.schedule, job.urgent, job.entry or false, job.listed or false)
  end
  if has_at or job.key or job.schedule or job.attempts > 0 or job.most < NEVER or job.urgent then
    return cmsgpack.pack(job.token, job.started, job.ran, job.attempts, has_at and job.at, job.most,
      job.key, job.schedule, job.urgent)
  end
end

local function is_text(value)
  return not value or type(value) == 'string'
end

-- Parses a dead letter: attempts, time of burial, error, key, schedule, urgency. Returns nothing if it is
-- missing or invalid.
local function read_letter(letter)
  local is_read, attempts, buried, error, key, schedule, urgent = pcall(cmsgpack.unpack, letter)
  if is_read and type(error) == 'string' then
    return attempts, buried, error, key, schedule, urgent
  end
end

-- Whether any job may have extras, any job has a kind, any has an entry in GROUPS, any kind has limits, and any job was
-- urgent before this call. Queues without them pay for this lookup. The server counts a key as often as it is named.
-- Kinds and groups are extras.
local found = redis.call('EXISTS', EXTRAS, KINDS, GROUPS, GROUPS, LIMITS, LIMITS, LIMITS, LIMITS, LIMITS, URGENT,
  URGENT, URGENT, URGENT, URGENT, URGENT, URGENT, URGENT, URGENT, URGENT)
local texts = found % 5
local any_extras, any_kinds, any_groups = texts > 0, texts == 2 or texts == 4, texts > 2
local any_limits, any_urgent = found % 10 > 4, found > 9

-- Reads the part of a record that `standing` has returned.
local function read_standing(job, stands)
  local length = tonumber(string.sub(stands, 17, 26))
  if string.byte(stands) == 104 then
    job.of_group = string.sub(stands, 12)
  elseif length then
    job.seat, job.of_group = string.sub(stands, 1, 16), string.sub(stands, 27, 26 + length)
    job.waits = string.byte(stands, 27 + length) == 119
  end
  job.stands, any_groups = stands, true
end

-- Each job is one table, however often it is read.
local known = {}

-- `place` and `due` may be unknown: leased jobs are in LEASES. A job with an invalid record is broken: claims
-- bury it (`turn.lua`), and other calls do not find it. `was_due` and `was_at`: what is stored. `listed`, `stands`:
-- nothing if it is unknown whether the job has an entry.
local function read(id, record, place, due)
  local job = known[id]
  if job then
    return job
  end
  job = { id = id, place = place, due = due, was_due = due, at = due, attempts = 0, most = NEVER, has_record = record,
    token = false, started = false, ran = false, key = false, schedule = false, urgent = false }
  if record then
    local is_read, token, started, ran, attempts, at, most, key, schedule, urgent, entry, listed, stands =
      pcall(cmsgpack.unpack, record)
    if is_read and type(attempts) == 'number' and type(most) == 'number' and is_text(token) and is_text(key)
      and is_text(schedule) then
      job.token, job.started, job.ran, job.attempts, job.most = token, started, ran, attempts, most
      job.key, job.schedule = key, schedule
      if urgent then
        job.urgent, job.was_urgent = true, true
      end
      if token then
        job.place = LEASES
      end
      job.at = at or job.at
      local length = type(entry) == 'string' and tonumber(string.sub(entry, 1, 10))
      if length then
        job.entry, job.limited = entry, string.sub(entry, 11, 10 + length)
        job.is_parked = string.sub(entry, 11 + length, 11 + length) == 'p'
      end
      if type(stands) == 'string' then
        read_standing(job, stands)
      elseif token or job.is_parked then
        job.stands = false
      end
      if token or length or job.stands then
        job.listed = type(listed) == 'string' and listed
      end
    else
      job.is_broken = true
    end
  end
  job.was_at = job.at
  known[id] = job
  return job
end

-- Returns the job with this id, if it exists. Also looks up the score, unlike `read`.
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

-- Changes are collected and written at the end, in few calls.
local changed = {}

local function change(job)
  if not job.is_changed then
    job.is_changed = true
    changed[#changed + 1] = job
  end
end

-- Reads the extras of jobs or dead letters.
local function load_extras(jobs)
  if not any_extras then
    return
  end
  local unread, ids = {}, {}
  for _, job in ipairs(jobs) do
    if not job.extras then
      unread[#unread + 1] = job
      ids[#ids + 1] = job.id
    end
  end
  for index, record in ipairs(fetch(EXTRAS, ids)) do
    local job, extras = unread[index], {}
    if record then
      local is_read, kind, options, failures, cancelled, group = pcall(cmsgpack.unpack, record)
      if is_read and is_text(kind) and is_text(options) and is_text(failures) and is_text(group) then
        extras = { kind = kind, options = options, failures = failures, cancelled = cancelled, group = group }
        job.was_cancelled = cancelled
      end
    end
    -- The record tells it after a loss of EXTRAS.
    extras.group = extras.group or job.of_group
    if extras.group and job.stands == nil and job.place and job.was_at then
      job.stands = fresh(extras.group, job.was_urgent, job.was_at)
    end
    if extras.kind and job.listed == nil and job.place and job.was_due then
      job.listed = listing(extras.kind, job.place == LEASES, job.was_due)
    elseif job.listed and extras.kind == nil then
      -- After a loss of EXTRAS.
      extras.kind = string.sub(job.listed, 11, -19)
    end
    job.extras, any_kinds, any_groups = extras, any_kinds or extras.kind, any_groups or extras.group
  end
end

-- Returns the extras of a job, which must not be changed.
local function extras_of(job)
  if not job.extras then
    load_extras({ job })
  end
  return job.extras or {}
end

-- Returns the group of a job that has a seat or waits for one, or whose extras were read.
local function group_of(job)
  if job.extras then
    return job.extras.group
  end
  return job.of_group
end

-- Changes some of the extras of a job; false removes them.
local function change_extras(job, values)
  local extras = {}
  for name, value in pairs(extras_of(job)) do
    extras[name] = value
  end
  for name, value in pairs(values) do
    extras[name] = value
  end
  job.extras, job.has_other_extras = extras, true
  any_kinds, any_groups = any_kinds or extras.kind, any_groups or extras.group
  change(job)
end

-- A cancel was requested while a handler had the job.
local function is_marked(job)
  return any_extras and extras_of(job).cancelled
end

local function unmark(job)
  if is_marked(job) then
    change_extras(job, { cancelled = false })
  end
end

-- Tables of lists by key.
local LISTS = { __index = function(all, key)
  local list = {}
  all[key] = list
  return list
end }

-- Entries exist as long as the payload. Dead letters are not marked.
local function write_extras(job, added, removed, set, deleted)
  if job.is_gone then
    push(removed[MARKED], job.id)
  end
  if job.is_gone == 'wholly' then
    push(deleted[EXTRAS], job.id)
  elseif job.has_other_extras then
    local extras = job.extras
    local is_now = not job.is_gone and extras.cancelled or false
    if is_now and not job.was_cancelled then
      push(added[MARKED], 0, job.id)
    elseif job.was_cancelled and not is_now then
      push(removed[MARKED], job.id)
    end
    if extras.kind or extras.options or extras.failures or is_now or extras.group then
      push(set[EXTRAS], job.id, cmsgpack.pack(extras.kind or false, extras.options or false,
        extras.failures or false, is_now, extras.group or false))
      any_extras = true
    else
      push(deleted[EXTRAS], job.id)
    end
    job.was_cancelled, job.has_other_extras = is_now, false
  end
end

-- Replaces an entry of a job in a sorted set of texts.
local function replace(old, new, job, key, added, removed)
  if old == new then
    return
  end
  if old then
    push(removed[key], old .. job.id)
  end
  if new then
    push(added[key], 0, new .. job.id)
  end
end

-- Lists the changed jobs by their kinds. Comes before other changes of what is known to be stored.
local function write_kinds(added, removed)
  local unknown = {}
  for _, job in ipairs(changed) do
    push(unknown, job.listed == nil and job or nil)
  end
  load_extras(unknown)
  for _, job in ipairs(changed) do
    local old, kind = job.listed, job.extras and job.extras.kind
    if old and not job.extras then
      kind = string.sub(old, 11, -19)
    end
    local new = kind and not job.is_gone and listing(kind, job.token, job.due) or false
    local old_urgent, new_urgent = job.was_urgent and old, job.urgent and new
    replace(old, new, job, KINDS, added, removed)
    replace(old_urgent and urgent_listing(old), new_urgent and urgent_listing(new), job, KINDS, added, removed)
    job.listed = new
  end
end

-- Returns the entry in GROUPS that `standing` describes, if it is one.
local function entry_of(stands)
  return stands and string.byte(stands) ~= 104 and stands or nil
end

-- Writes where the changed jobs of groups stand. Comes before other changes of what is known to be stored.
local function write_groups(added, removed)
  local unknown = {}
  for _, job in ipairs(changed) do
    push(unknown, job.stands == nil and job or nil)
  end
  load_extras(unknown)
  for _, job in ipairs(changed) do
    local group = group_of(job)
    local new = group and not job.is_gone and standing(job, group) or false
    replace(entry_of(job.stands), entry_of(new), job, GROUPS, added, removed)
    job.stands = new
  end
end

local function write()
  if #changed == 0 then
    return
  end
  local removed, added = setmetatable({}, LISTS), setmetatable({}, LISTS)
  local set, deleted = setmetatable({}, LISTS), setmetatable({}, LISTS)
  if any_kinds then
    write_kinds(added, removed)
  end
  if any_groups then
    write_groups(added, removed)
  end
  for _, job in ipairs(changed) do
    local place = not job.is_gone and (job.token and LEASES or DUE)
    if job.place and job.place ~= place then
      push(removed[job.place], job.id)
    end
    if place and (job.place ~= place or job.is_moved) then
      push(added[place], score(job.due), job.id)
    end
    local is_urgent = place and job.urgent
    if is_urgent and (job.place ~= place or job.is_moved or not job.was_urgent) then
      push(added[URGENT], score(job.due), job.id)
    elseif job.was_urgent and not is_urgent then
      push(removed[URGENT], job.id)
    end
    if is_urgent or job.was_urgent then
      job.was_urgent = is_urgent
    end
    local entry = place and job.limited and place_of(job) or nil
    if job.entry ~= entry then
      replace(job.entry, entry, job, PLACES, added, removed)
      job.entry = entry
    end
    local record = place and pack(job)
    if record then
      push(set[JOBS], job.id, record)
    elseif job.has_record then
      push(deleted[JOBS], job.id)
    end
    if job.is_gone == 'wholly' then
      push(deleted[PAYLOADS], job.id)
    end
    if any_extras and job.is_gone or job.has_other_extras then
      write_extras(job, added, removed, set, deleted)
    end
    job.place, job.has_record, job.is_changed = place, record, false
    if job.is_moved then
      job.is_moved = false
    end
  end
  changed = {}
  for command, lists_of_keys in pairs({ ZREM = removed, ZADD = added, HSET = set, HDEL = deleted }) do
    for key, list in pairs(lists_of_keys) do
      send(command, key, list)
    end
  end
end

local function pending(key)
  local id = redis.call('HGET', PENDING, key)
  return id and find(id)
end

-- Returns the entry in RUNNING of a done job of a key.
local function done_name(key, id)
  return sized(key) .. 'd' .. id
end

-- Returns all jobs of a key: the open one and started ones.
local function of_key(key)
  local member = sized(key)
  local found = redis.call('ZRANGEBYLEX', RUNNING, '[' .. member .. '0', '(' .. member .. ':')
  local jobs = {}
  push(jobs, pending(key) or nil)
  for _, name in ipairs(found) do
    push(jobs, find(string.sub(name, -16)))
  end
  return jobs
end

-- Returns the started repeating job of the key.
local function begun_schedule(key)
  for _, job in ipairs(of_key(key)) do
    if job.ran and job.schedule then
      return job
    end
  end
end

-- The last bit of the token says that the holder does not confirm starts.
local function is_unconfirmed(job)
  return job.token and string.byte(job.token, 16) % 2 == 1
end

-- A handler has the job, or may have it, so it cannot be cancelled or reset.
local function is_taken(job, now)
  return (job.started or is_unconfirmed(job) and job.at <= now) and job.due > now
end

-- By id, or by key: the open job, or else one that waits for its next attempt, or else a running one.
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

-- Takes the job and its place from its holder.
local function fence_off(job)
  job.token, job.started = false, false
  if job.limited then
    job.limited, job.is_parked = nil, nil
  end
  change(job)
end

-- Ends the lease. The job is due at `at`.
local function free(job, at)
  fence_off(job)
  job.at, job.due, job.is_moved = at, at, true
end

-- Opens a job that was started and is no longer held, unless another job of its key is open.
local function reopen(job)
  if job.ran and not pending(job.key) then
    redis.call('ZREM', RUNNING, sized(job.key) .. job.id)
    redis.call('HSET', PENDING, job.key, job.id)
    job.ran = false
  end
end

-- The job is no longer open: its key may have another open job.
local function close(job)
  if job.key and not job.ran then
    redis.call('HDEL', PENDING, job.key)
    redis.call('ZADD', RUNNING, 0, sized(job.key) .. job.id)
    job.ran = true
    change(job)
  end
end

-- Like `free`. An explicitly requested time also moves the bound of a debounce.
local function put_at(job, at)
  job.most = math.max(job.most, at)
  free(job, at)
end

-- Also frees its key. A buried job keeps its payload.
local function remove(job, is_gone)
  if job.ran then
    redis.call('ZREM', RUNNING, sized(job.key) .. job.id)
  elseif job.key then
    redis.call('HDEL', PENDING, job.key)
  end
  job.is_gone = is_gone
  change(job)
end

-- Returns the earliest score of a sorted set.
local function first_of(key)
  local found = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return found[2] and tonumber(found[2]) or NEVER
end

-- Merges two lists of up to `most` jobs from sorted sets by time and id. Also returns the ids.
local function merged(ones, others, most)
  local all, ids = {}, {}
  if #ones == 0 then
    -- Usually no lease has expired.
    for index, job in ipairs(others) do
      ids[index] = job.id
    end
    return others, ids
  end
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

-- Appends a lease in the format that the client reads. `extras`: see `load_extras`.
local function push_lease(answer, job, payload)
  local extras = job.extras or {}
  local has_texts = extras.kind or extras.options or extras.failures
  push(answer, tonumber(job.id), job.at)
  push(answer, (job.started and 1 or 0) + (job.urgent and 2 or 0) + (extras.cancelled and 4 or 0)
    + (has_texts and 8 or 0), job.attempts)
  push(answer, job.key, payload)
  push(answer, job.schedule)
  if has_texts then
    push(answer, extras.kind or false, extras.options or false)
    push(answer, extras.failures or false)
  end
end
