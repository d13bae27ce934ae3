-- Which pushes are announced. ARGV begins with the channel, the store that calls, and the queue.
--
-- The head: no process that listens waits for a later moment, or a message is on its way to it.
-- Without one it is "never". A claim whose process will wait longer raises it (`turn.lua`).
local CHANNEL, ORIGIN, NAME = ARGV[1], ARGV[2], ARGV[3]

-- If the server refuses it, what was done stays done: other processes look by themselves, later.
local function publish(due)
  redis.pcall('PUBLISH', CHANNEL, string.format('%.0f', due) .. ' ' .. ORIGIN .. ' ' .. NAME)
end

-- A job is taken from a holder that does not ask before it hands out: all holders are to ask, that of the
-- caller as well, so it is not said whose message it is.
local function recall()
  redis.pcall('PUBLISH', CHANNEL, string.format('%.0f', -NEVER) .. '  ' .. NAME)
end

local function head()
  return tonumber(redis.call('HGET', STATE, 'head') or NEVER)
end

local function announce(due)
  if due < head() then
    redis.call('HSET', STATE, 'head', due)
    publish(due)
  end
end
