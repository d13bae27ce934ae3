-- Second part of `turn.lua`: limits of keys within a claim. Only for queues that have one: see `base.lua`.
local has_its_key

if per_key then
  -- Delay of a job that has to wait for another one of its key, which is due now.
  local SHORTLY = 1000

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
  function has_its_key(job)
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
end
