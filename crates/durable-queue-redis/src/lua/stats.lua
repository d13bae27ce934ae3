-- Returns the numbers of jobs, due jobs and dead letters; 1 if the queue is paused; and the kinds of due jobs, each
-- with their number. The server counts by ranks, so counts need no limit here.
local now = clock()

local function next_entry(from)
  return redis.call('ZRANGEBYLEX', KINDS, from, '+', 'LIMIT', 0, 1)[1]
end

-- Goes from kind to kind, without reading their jobs.
local kinds, last = {}, time_text(now) .. '~'
local entry = any_kinds and next_entry('-')
while entry do
  local begin, count = string.sub(entry, 1, -35), 0
  for _, state in ipairs({ 'f', 'h' }) do
    count = count + redis.call('ZLEXCOUNT', KINDS, '[' .. begin .. state, '(' .. begin .. state .. last)
  end
  if count > 0 then
    push(kinds, string.sub(begin, 11), count)
  end
  entry = next_entry('(' .. begin .. '~')
end

return {
  redis.call('ZCARD', DUE) + redis.call('ZCARD', LEASES),
  redis.call('ZCOUNT', DUE, '-inf', now) + redis.call('ZCOUNT', LEASES, '-inf', now),
  redis.call('ZCARD', DEAD),
  redis.call('HEXISTS', STATE, 'paused'),
  kinds,
}
