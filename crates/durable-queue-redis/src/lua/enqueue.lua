-- Inserts jobs, in the order of their ids. ARGV, after those of `announce.lua`, for each job: its time, its
-- payload, and its policy, which is empty for a job without key, schedule, urgency, kind, options and group. Otherwise
-- these follow: the bound of a debounce (or empty), the key and the schedule, each empty or with a leading `=`, and 1
-- if it is urgent, plus 2 if its kind, its options and its group follow, like the key.
--
-- Returns the earliest time that was set; a letter per job: n new, m merged, k kept; and the ids.
--
-- `merge.lua`, after `jobs.lua`, goes on with the first job that has a policy.
local now = clock()
local last = tonumber(redis.call('HGET', STATE, 'last'))
if not last then
  -- If only the state was deleted, the ids in use are unknown, but all are less than the clock.
  last = redis.call('EXISTS', DUE, LEASES, PAYLOADS, DEAD) > 0 and now or 0
end
local before = last
local earliest = NEVER
local times, payloads, letters, ids = {}, {}, {}, {}

local function enter(at, payload)
  last = last + 1
  local id = string.format('%016.0f', last)
  push(payloads, id, payload)
  letters[#letters + 1] = 'n'
  ids[#ids + 1] = last
  earliest = math.min(earliest, at)
  return id
end

local function enter_plain(when, payload)
  local at = resolve(when, now)
  push(times, score(at), enter(at, payload))
end

local function finish()
  send('ZADD', DUE, times)
  send('HSET', PAYLOADS, payloads)
  if last > before then
    redis.call('HSET', STATE, 'last', string.format('%.0f', last))
  end
  announce(earliest)
  return { earliest, table.concat(letters), ids }
end

local index = 4
while ARGV[index + 2] == '' do
  enter_plain(ARGV[index], ARGV[index + 1])
  index = index + 3
end
if not ARGV[index] then
  return finish()
end
