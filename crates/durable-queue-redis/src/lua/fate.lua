-- Returns the state of a job. ARGV: its id. Returns nothing if it does not exist, 1 if it is open, 2 and the record
-- of a done job that is kept, or 3 and the error of a dead letter.
local id = ARGV[1]
if find(id) then
  return { 1 }
end
local letter = redis.call('HGET', LETTERS, id)
if letter then
  local _, _, error = read_letter(letter)
  return { 3, error or '' }
end
local record = redis.call('HGET', DONE, id)
if record then
  local attempts, finished, took, until_when, key, kind, result = cmsgpack.unpack(record)
  if until_when > clock() then
    return { 2, attempts, finished, took, until_when, key, kind, result }
  end
end
return {}
