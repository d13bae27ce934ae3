-- Deletes dead letters, by their ids. Answers how many were there.
local count = 0
for _, id in ipairs(ARGV) do
  if redis.call('ZREM', DEAD, id) == 1 then
    redis.call('HDEL', LETTERS, id)
    redis.call('HDEL', PAYLOADS, id)
    count = count + 1
  end
end
return count
