-- Deletes dead letters by id. Returns the number of existing ones.
local count = 0
for _, id in ipairs(ARGV) do
  if redis.call('ZREM', DEAD, id) == 1 then
    redis.call('HDEL', LETTERS, id)
    redis.call('HDEL', PAYLOADS, id)
    redis.call('HDEL', EXTRAS, id)
    count = count + 1
  end
end
return count
