-- First part of the scripts. `clock()` and `node()`, which is empty outside of clusters, are defined before it.
--
-- A script makes its functions again in each call, which takes a twentieth of a microsecond for each, and as long for
-- each variable that it uses. So parts that few calls need come last, or are functions themselves, or in a condition.
--
-- Times are microseconds since 1970. Lua's only number type and the scores of sorted sets are doubles, which
-- represent all integers up to 2^53, in the year 2255. Later times mean "never". Ids have 16 digits, so that
-- jobs with the same score are ordered by id.
--
-- A job without a lease is in DUE, by its time; a leased job is in LEASES, by the end of its lease. So jobs
-- of dead holders fall due by themselves, and no scan skips leased jobs. An urgent job is also in URGENT,
-- with the same score. JOBS has a record of all values that differ from those of most jobs: see `pack`.
--
-- EXTRAS has the kind, options, failures, mark and group of jobs and dead letters that have any: few do. MARKED has the
-- ids of marked jobs.
--
-- PENDING has the id of the open job of each key. RUNNING has the ids of started jobs by their keys, and those of done
-- jobs that are kept.
--
-- DONE has the records of done jobs that are kept, and UNTIL their ids, by the end of their time: see `turn.lua`.
--
-- LIMITS has the limits of kinds, and PLACES the jobs that have a place under one: see `limits.lua`.
--
-- KINDS has the jobs of each kind, by state and time: see `listing`.
--
-- GROUPS has the jobs of each group: see `standing` and `groups.lua`.
local DUE, LEASES, URGENT, JOBS, PAYLOADS, PENDING, RUNNING, DEAD, LETTERS, STATE, EXTRAS, MARKED, DONE, UNTIL,
  LIMITS, PLACES, KINDS, GROUPS = unpack(KEYS)
local NEVER = 9007199254740992
-- Maximum number of arguments per call: Lua's stack has 8000 slots. Even, for pairs.
local CHUNK = 4000

local function after(time, delay)
  return math.min(time + delay, NEVER)
end

-- Parses a time: `+` and a delay, or a point in time.
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

local function push(list, one, other)
  local count = #list
  list[count + 1] = one
  list[count + 2] = other
end

-- Returns a time as an argument. Jobs of a claim, or of a push, often have the same.
local last_time, last_text

local function score(time)
  if time ~= last_time then
    last_time, last_text = time, string.format('%.0f', time)
  end
  return last_text
end
