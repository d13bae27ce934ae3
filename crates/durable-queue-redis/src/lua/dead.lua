-- Lists dead letters by id. ARGV: the maximum number, and the id after which to start. Returns eight values
-- per letter, and four more if it has a kind, options, failures or a group. Most are empty if the letter is missing or
-- invalid.
local ids = redis.call('ZRANGEBYSCORE', DEAD, '(' .. ARGV[2], '+inf', 'LIMIT', 0, ARGV[1])
local payloads = fetch(PAYLOADS, ids)
local all = {}
for index, id in ipairs(ids) do
  all[index] = { id = id }
end
load_extras(all)
local answer = {}
for index, letter in ipairs(fetch(LETTERS, ids)) do
  local attempts, buried, error, key, schedule, urgent = read_letter(letter)
  if not error then
    attempts, buried, error, key, schedule, urgent = 0, 0, 'its record is gone, or cannot be read', false, false, false
  end
  push(answer, tonumber(ids[index]), key)
  push(answer, payloads[index], attempts)
  push(answer, buried, error)
  local extras = all[index].extras or {}
  local has_texts = extras.kind or extras.options or extras.failures or extras.group
  push(answer, schedule, (urgent and 1 or 0) + (has_texts and 2 or 0))
  if has_texts then
    push(answer, extras.kind or false, extras.options or false)
    push(answer, extras.failures or false, extras.group or false)
  end
end
return answer
