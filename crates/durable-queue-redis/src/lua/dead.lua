-- Lists dead letters by id. ARGV: the maximum number, and the id after which to start. Returns eight values
-- per letter; most are empty if the letter is missing or invalid.
local ids = redis.call('ZRANGEBYSCORE', DEAD, '(' .. ARGV[2], '+inf', 'LIMIT', 0, ARGV[1])
local payloads = fetch(PAYLOADS, ids)
local answer = {}
for index, letter in ipairs(fetch(LETTERS, ids)) do
  local attempts, buried, error, key, schedule, urgent = read_letter(letter)
  if not error then
    attempts, buried, error, key, schedule, urgent = 0, 0, 'its record is gone, or cannot be read', false, false, false
  end
  push(answer, tonumber(ids[index]), key)
  push(answer, payloads[index], attempts)
  push(answer, buried, error)
  push(answer, schedule, urgent and 1 or 0)
end
return answer
