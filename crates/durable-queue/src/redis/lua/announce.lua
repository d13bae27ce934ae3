-- Who is told. ARGV begins with the channel, with the store that calls, and with the queue.
--
-- The head: no process that listens waits for a later moment, or a message is on its way to it.
-- Without one, it is "never". Who waits longer raises it (`turn.lua`).
local CHANNEL, ORIGIN, NAME = ARGV[1], ARGV[2], ARGV[3]

-- If it may not be said, what was done stays done: the others look by themselves, later.
local function tell(due)
  redis.pcall('PUBLISH', CHANNEL, string.format('%.0f', due) .. ' ' .. ORIGIN .. ' ' .. NAME)
end

local function head()
  return tonumber(redis.call('HGET', STATE, 'head') or NEVER)
end

local function announce(due)
  if due < head() then
    redis.call('HSET', STATE, 'head', due)
    tell(due)
  end
end
