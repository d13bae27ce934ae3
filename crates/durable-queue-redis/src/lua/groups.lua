-- Groups: which of their jobs have seats, and which wait. Requirements 16 to 23 of `durable_queue::store` define the
-- terms.
--
-- The field `groups` of STATE has the number of the rule, in 16 digits, and the rule: `ordered`, `fair`, a maximum, or
-- `none`. Nothing follows the number if there is neither a rule nor a job that a former rule has stopped.
--
-- GROUPS has, besides jobs, an entry for each group of which a job has left its seat since the last claim: `!` and the
-- group. With those of former rules, they come before all others, so a claim finds both by one look.

-- Returns the rule and its number.
local function rule_of_groups()
  local text = redis.call('HGET', STATE, 'groups') or ''
  local rule = string.sub(text, 17)
  return rule ~= '' and rule or 'none', tonumber(string.sub(text, 1, 16)) or 0
end

-- Takes a job from its seat, or from those that wait for one. Returns whether another job of the group may have to be
-- called: the next claim does that. The caller changes the job, and announces.
local function leave_seat(job)
  local seat, waits = job.seat, job.waits
  job.seat, job.waits = nil, nil
  if not seat or waits then
    return false
  end
  local _, number = rule_of_groups()
  if tonumber(seat) ~= number then
    return false
  end
  redis.call('ZADD', GROUPS, 0, '!' .. sized(group_of(job)))
  return true
end

-- Returns the functions of a rule. Only for queues that have one: each function costs time when it is made, in each
-- call of a script.
local function load_groups(text)
  local number, rule = string.sub(text, 1, 16), string.sub(text, 17)
  local is_ordered, is_fair = rule == 'ordered', rule == 'fair'
  local most = tonumber(rule) or rule ~= 'none' and 1 or 0
  -- By group: the number of seats that are taken, if it was needed, and whether a job has left one.
  local taken, left = {}, {}

  -- Returns up to `limit` entries that begin like this.
  local function entries(begin, limit)
    return redis.call('ZRANGEBYLEX', GROUPS, '[' .. begin, '(' .. begin .. '~', 'LIMIT', 0, limit)
  end

  -- Returns the job of an entry, or nothing if the entry is invalid, after a loss of part of the data. Then it is
  -- removed.
  local function job_of(entry)
    local job = find(string.sub(entry, -16))
    if job and job.stands == nil then
      load_extras({ job })
    end
    if job and job.stands and job.stands .. job.id == entry then
      return job
    end
    redis.call('ZREM', GROUPS, entry)
  end

  -- Returns the number of free seats of a group. The first lookup must come before unwritten changes of its jobs.
  local function free_seats(group)
    if not taken[group] then
      local begin = number .. sized(group) .. 's'
      local count = redis.call('ZLEXCOUNT', GROUPS, '[' .. begin, '(' .. begin .. '~')
      -- The first job of a full group may be gone, after a loss of part of the data.
      while count >= most and count > 0 and not job_of(entries(begin, 1)[1]) do
        count = count - 1
      end
      taken[group] = count
    end
    return most - taken[group]
  end

  local function give_seat(job, group)
    job.seat, job.waits = number, nil
    taken[group] = taken[group] + 1
    change(job)
  end

  local function take_seat(job, group)
    job.seat = nil
    taken[group] = taken[group] and taken[group] - 1
    change(job)
  end

  -- Returns the first job of the group that no claim has looked at, and that is due by then.
  local function first_fresh(group, last)
    local begin, before = 'f' .. sized(group), time_text(last) .. '~'
    for urgency = 0, 1 do
      local from = begin .. urgency
      local entry
      repeat
        entry = redis.call('ZRANGEBYLEX', GROUPS, '[' .. from, '(' .. from .. before, 'LIMIT', 0, 1)[1]
        local job = entry and job_of(entry)
        if job then
          return job
        end
      until not entry
    end
  end

  -- Whether a job comes first in an ordered group.
  local function goes_before(one, other)
    if (one.urgent and 0 or 1) ~= (other.urgent and 0 or 1) then
      return one.urgent
    end
    return one.at < other.at or one.at == other.at and one.id < other.id
  end

  -- Gives the free seats of a group to the jobs that wait. Adds these to `called`, and returns whether there were any.
  -- All changes must have been written.
  local function call(group, now, called)
    local any = false
    while free_seats(group) > 0 do
      local found = entries(number .. sized(group) .. 'w', math.min(most - taken[group], PARK_LIMIT))
      local jobs = {}
      for _, entry in ipairs(found) do
        push(jobs, job_of(entry))
      end
      if is_ordered or #found == 0 and is_fair then
        local fresh, waiting = first_fresh(group, now), jobs[1]
        -- In an ordered group, a fresh job may come before those that wait.
        if fresh and not (waiting and goes_before(waiting, fresh)) then
          jobs = { fresh }
        end
      end
      for _, job in ipairs(jobs) do
        give_seat(job, group)
        local due = is_fair and math.max(job.at, now) or job.at
        if due ~= job.due then
          job.due, job.is_moved, job.is_called = due, true, called
        end
        push(called or {}, job)
        any = true
      end
      write()
      if #found == 0 and #jobs == 0 then
        break
      end
    end
    return any
  end

  -- Calls jobs of the groups of which a job has left its seat. Returns whether there were any.
  local function call_next(now)
    local any = false
    for group in pairs(left) do
      any = call(group, now) or any
    end
    left = {}
    return any
  end

  -- After a settle that has ended the job's lease, and for a claim that has lost the job.
  local function end_lease(job, act)
    local keeps = is_ordered and not job.is_gone and act ~= 'again'
    if job.seat == number and not job.waits and not keeps then
      local group = group_of(job)
      take_seat(job, group)
      left[group] = true
    end
  end

  -- At the start of a claim: frees jobs that a former rule has stopped, and gives away seats that were left by others
  -- than settles. Returns whether there may be more such jobs. All changes must have been written.
  local function renew(now)
    local found = redis.call('ZRANGEBYLEX', GROUPS, '-', '(' .. number, 'LIMIT', 0, PARK_LIMIT)
    local ended = {}
    for _, entry in ipairs(found) do
      if string.byte(entry) == 33 then
        push(ended, entry)
        left[string.sub(entry, 12)] = true
      else
        local job = job_of(entry)
        if job then
          if job.waits then
            job.due, job.is_moved = job.at, true
          end
          job.seat, job.waits = nil, nil
          change(job)
        end
      end
    end
    send('ZREM', GROUPS, ended)
    write()
    call_next(now)
    if rule == 'none' and #found < PARK_LIMIT then
      redis.call('HSET', STATE, 'groups', number)
    end
    return #found == PARK_LIMIT
  end

  -- Returns whether a claim may take the job. If not, it waits. `last`: see `first_fresh`.
  local function has_seat(job, last)
    local group = extras_of(job).group
    if not group or job.seat == number and not job.waits or is_fair and job.token then
      return true
    end
    if free_seats(group) > 0 then
      local first = is_ordered and first_fresh(group, last) or job
      give_seat(first, group)
      if first == job then
        return true
      end
    end
    local evict = any_limits and limiting().evict or fence_off
    evict(job)
    job.seat, job.waits = number, true
    job.due, job.is_moved = NEVER, true
    return false
  end

  -- After a claim has taken a job, or parked it for its kind: calls the next one if the job has left its seat. Adds it
  -- to `called`, and returns whether there was any.
  local function pass_on(job, now, is_parked, called)
    local group = (is_fair or is_parked and not is_ordered) and extras_of(job).group
    if not group then
      return false
    end
    if job.seat == number then
      take_seat(job, group)
    else
      job.seat = nil
    end
    write()
    return call(group, now, called)
  end

  return { has_rule = rule ~= 'none', call_next = call_next, end_lease = end_lease, renew = renew, has_seat = has_seat,
    pass_on = pass_on }
end
