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

-- In a cluster, only the node that has set the head knows it. Its successor after a failover may have an
-- older one, and messages do not come from a session that the failure has ended.
local function head()
  local due, of = string.match(redis.call('HGET', STATE, 'head') or '', '^(%S+)(.*)$')
  return of == node() and tonumber(due) or NEVER
end

local function set_head(due)
  redis.call('HSET', STATE, 'head', string.format('%.0f', due) .. node())
end

local function announce(due)
  if due < head() then
    set_head(due)
    publish(due)
  end
end
