-- Second part of `enqueue.lua`: inserts the jobs from the first one that has a policy.
local any_merged = false
local per_key = redis.call('HGET', STATE, 'serial_keys')

local function given(text)
  return text ~= '' and string.sub(text, 2)
end

-- A point in time that has passed. A delay never has.
local function has_passed(text)
  return string.sub(text, 1, 1) ~= '+' and resolve(text, now) <= now
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
    local urgent, has_texts, kind, options = flags % 2 == 1, flags > 1, false, false
    index = index + 4
    if has_texts then
      kind, options = given(ARGV[index]), given(ARGV[index + 1])
      index = index + 2
    end
    if schedule and has_passed(when) then
      -- That run may be done already.
      policy = 'keep'
    end
    local begun = key and schedule and begun_schedule(key)
    local old = begun or key and pending(key)
    if old then
      ids[#ids + 1] = tonumber(old.id)
      if policy == 'keep' then
        letters[#letters + 1] = 'k'
      else
        letters[#letters + 1] = 'm'
        any_merged = true
        if begun and old.token then
          -- The job is due at this time after its run.
          old.most = at
          change(old)
        elseif begun then
          free(old, math.min(old.at, at))
          earliest = math.min(earliest, old.at)
        else
          local merged = merged_times[policy]
          at = merged and merged(old.at, at) or math.min(at, old.most)
          -- Ends a claim ahead.
          if is_unconfirmed(old) then
            recall()
          end
          local was_held = old.token
          free(old, at)
          if was_held and per_key and bring_back(key) then
            at = -NEVER
          end
          old.most = schedule and NEVER or old.most
          earliest = math.min(earliest, at)
        end
        old.schedule = schedule or old.schedule
        old.urgent = old.urgent or urgent
        -- A job of the same call may have texts that are not written yet.
        if has_texts or any_extras or old.extras then
          change_extras(old, { kind = kind, options = options })
        end
        push(payloads, old.id, payload)
      end
    else
      at = math.min(at, most)
      local id = enter(at, payload)
      local job = read(id, false, false, at)
      job.most, job.key, job.schedule, job.urgent = most, key, schedule, urgent
      change(job)
      if has_texts then
        job.extras, job.has_other_extras, any_kinds = { kind = kind, options = options }, true, any_kinds or kind
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
