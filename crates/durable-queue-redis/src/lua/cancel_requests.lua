-- Returns the ids and tokens of marked jobs that are held. ARGV: the maximum number of jobs. After a loss of EXTRAS,
-- MARKED may have jobs that have ended.
local most = tonumber(ARGV[1])
local answer, ended, first = {}, {}, 0
repeat
  local ids = redis.call('ZRANGE', MARKED, first, first + most - 1)
  for _, id in ipairs(ids) do
    local job = find(id)
    if job and job.token and #answer < 2 * most then
      push(answer, tonumber(id), job.token)
    elseif not job then
      push(ended, id)
    end
  end
  first = first + most
until #ids < most or #answer == 2 * most
send('ZREM', MARKED, ended)
return answer
