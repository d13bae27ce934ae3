-- Returns the rule of groups, or `none`; and for each kind that has limits its name, its maximum, and the number of
-- tokens of its rate and the time in which the bucket is filled.
local answer = { (rule_of_groups()) }
for kind, limit in pairs(limiting().by_kind) do
  if limit.most or limit.tokens then
    push(answer, kind, limit.most)
    push(answer, limit.tokens, limit.per)
  end
end
return answer
