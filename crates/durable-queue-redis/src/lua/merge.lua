-- Second part of `enqueue.lua`: inserts the jobs from the first one that has a policy.
local any_merged = false

local function given(text)
  return text ~= '' and string.sub(text, 2)
end

-- A point in time that has passed. A delay never has.
local function has_passed(text)
  return string.sub(text, 1, 1) ~= '+' and resolve(text, now) <= now
end

-- Policies that leave an open job as it is.
local keeps = { keep = true, ['until-done'] = true, ['done'] = true }

-- Returns the id of the first started job of a key.
local function first_started(key)
  local from, to = '[' .. sized(key) .. '0', '(' .. sized(key) .. ':'
  local name
  repeat
    name = redis.call('ZRANGEBYLEX', RUNNING, from, to, 'LIMIT', 0, 1)[1]
    if name and find(string.sub(name, -16)) then
      return string.sub(name, -16)
    end
    -- After a loss of part of the data.
    from = name and '(' .. name
  until not name
end

-- Returns the id of the last done job of a key that is kept.
local function last_done(key)
  local from, to = '(' .. done_name(key, '~'), '[' .. done_name(key, '')
  local name
  repeat
    name = redis.call('ZREVRANGEBYLEX', RUNNING, from, to, 'LIMIT', 0, 1)[1]
    local id = name and string.sub(name, -16)
    local record = name and redis.call('HGET', DONE, id)
    if record and select(4, cmsgpack.unpack(record)) > now then
      return id
    end
    -- Its time is over, and it was not deleted yet.
    from = name and '(' .. name
  until not name
end

-- Returns the id of the job that keeps a push of its key from inserting another one, if none is open.
local function unique(key, policy)
  if policy == 'until-done' then
    return first_started(key)
  elseif policy == 'done' then
    return first_started(key) or last_done(key)
  end
end

-- Otherwise the new time, up to the bound set by the first push.
local merged_times = { earliest = math.min, latest = math.max }

while ARGV[index] do
  local when, payload, policy = ARGV[index], ARGV[index + 1], ARGV[index + 2]
  index = index + 3
  if policy == '' then
    enter_plain(when, payload)
  else
    local at = resolve(when, now)
    local most = ARGV[index] == '' and NEVER or resolve(ARGV[index], now)
    local key, schedule = given(ARGV[index + 1]), given(ARGV[index + 2])
    local flags = tonumber(ARGV[index + 3])
    local urgent, has_texts, kind, options, group = flags % 2 == 1, flags > 1, false, false, false
    index = index + 4
    if has_texts then
      kind, options, group = given(ARGV[index]), given(ARGV[index + 1]), given(ARGV[index + 2])
      index = index + 3
    end
    if schedule and not keeps[policy] and has_passed(when) then
      -- That run may be done already.
      policy = 'keep'
    end
    local begun = key and schedule and begun_schedule(key)
    local old = begun or key and pending(key)
    local kept = key and not old and unique(key, policy)
    if kept or old then
      ids[#ids + 1] = tonumber(kept or old.id)
      if kept or keeps[policy] then
        letters[#letters + 1] = 'k'
      else
        letters[#letters + 1] = 'm'
        any_merged = true
        -- A started job keeps its group.
        local its_group = group
        if begun then
          its_group = extras_of(old).group
        end
        if begun and old.token then
          -- The job is due at this time after its run.
          old.most = at
          change(old)
        elseif begun then
          free(old, math.min(old.at, at))
          earliest = math.min(earliest, leave_seat(old) and -NEVER or old.at)
        else
          local merged = merged_times[policy]
          at = merged and merged(old.at, at) or math.min(at, old.most)
          -- Ends a claim ahead.
          if is_unconfirmed(old) then
            recall()
          end
          free(old, at)
          old.most = schedule and NEVER or old.most
          earliest = math.min(earliest, leave_seat(old) and -NEVER or at)
        end
        old.schedule = schedule or old.schedule
        old.urgent = old.urgent or urgent
        -- A job of the same call may have texts that are not written yet.
        if has_texts or any_extras or old.extras then
          change_extras(old, { kind = kind, options = options, group = its_group or false })
        end
        push(payloads, old.id, payload)
      end
    else
      at = math.min(at, most)
      local id = enter(at, payload)
      local job = read(id, false, false, at)
      job.most, job.key, job.schedule, job.urgent, job.stands = most, key, schedule, urgent, false
      change(job)
      if has_texts then
        job.extras, job.has_other_extras = { kind = kind, options = options, group = group }, true
        any_kinds, any_groups = any_kinds or kind, any_groups or group
      else
        job.listed = false
      end
      if key then
        -- So that a later job of the same call finds it.
        redis.call('HSET', PENDING, key, id)
      end
    end
  end
end
write()
if any_merged then
  earliest = math.min(earliest, call_parked(now))
end
return finish()
