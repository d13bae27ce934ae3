-- Which pushes are announced. ARGV begins with the channel, the calling store's id, and the queue.
--
-- The head: no listening process waits for a later time, or a message is on its way to it. Without a head, it
-- is "never". A claim whose process will wait longer raises it (`turn.lua`).
local CHANNEL, ORIGIN, NAME = ARGV[1], ARGV[2], ARGV[3]

-- If the server rejects it, the change stays: other processes find it by their regular looks.
local function publish(due)
  redis.pcall('PUBLISH', CHANNEL, string.format('%.0f', due) .. ' ' .. ORIGIN .. ' ' .. NAME)
end

-- A job is taken from a holder that does not confirm starts. All holders have to confirm from now on,
-- including the caller's, so the message has no origin.
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
