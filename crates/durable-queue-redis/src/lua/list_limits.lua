-- Returns the maximum of held jobs per key, or 0; and for each kind that has limits its name, its maximum, and the
-- number of tokens of its rate and the time in which the bucket is filled.
local answer = { tonumber(redis.call('HGET', STATE, 'serial_keys')) or 0 }
for kind, limit in pairs(limiting().by_kind) do
  if limit.most or limit.tokens then
    push(answer, kind, limit.most)
    push(answer, limit.tokens, limit.per)
  end
end
return answer
