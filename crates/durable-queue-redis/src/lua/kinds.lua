-- Second part of `turn.lua`: the kinds that a claim lists, and their jobs. Only for such claims: see `base.lua`.
local kinds

if kinds_count then
  local rooms, by_kind = {}, {}
  for index = of_claim + 8, of_claim + 6 + 2 * kinds_count, 2 do
    local kind = ARGV[index]
    local room = { begin = sized(kind), left = tonumber(ARGV[index + 1]) }
    rooms[#rooms + 1] = room
    by_kind[kind] = room
  end

  -- The jobs of all kinds, and without one, by the state in entries: see `listing`.
  local ALL = { f = DUE, h = LEASES, u = URGENT }

  -- Returns the time of a position, which is the end of an entry: its time and the id. See `time_text`.
  local function due_of(position)
    local time = tonumber(string.sub(position, 2, 17))
    return string.byte(position) == 48 and time - NEVER or time
  end

  -- Returns the scores of jobs, and the sorted sets that have them.
  local function located(ids)
    local dues, places, others = fetch(DUE, ids, 'ZMSCORE'), {}, {}
    for index, id in ipairs(ids) do
      places[index] = dues[index] and DUE or LEASES
      push(others, not dues[index] and id or nil)
    end
    local ends, at = fetch(LEASES, others, 'ZMSCORE'), 0
    for index, place in ipairs(places) do
      if place == LEASES then
        at = at + 1
        dues[index] = ends[at]
      end
    end
    return dues, places
  end

  -- Reads the jobs at some positions. `readers`: those that have found the positions. Entries that contradict other
  -- keys, after a loss of part of the data, are removed, and their jobs are false.
  local function read_jobs(positions, readers, jobs)
    local ids, stale, valid = {}, {}, {}
    for index, position in ipairs(positions) do
      ids[index] = string.sub(position, -16)
    end
    local dues, places = located(ids)
    for index, record in ipairs(fetch(JOBS, ids)) do
      local position, due, is_leased = positions[index], tonumber(dues[index]), places[index] == LEASES
      local reader, job = readers[position], false
      local state = reader.state
      -- Since the position was found, this claim may have fenced off its holder.
      if due == due_of(position) and (state == 'u' or (state == 'h') == is_leased or known[ids[index]]) then
        job = read(ids[index], record, places[index], due)
        if job.listed == nil then
          job.listed = reader.room.begin .. (is_leased and 'h' or 'f') .. string.sub(position, 1, 17)
        end
        job = (state ~= 'u' or job.urgent) and job
      end
      jobs[position] = job
      push(job and valid or stale, job or reader.begin .. position)
    end
    send('ZREM', KINDS, stale)
    if limiter or groups then
      load_extras(valid)
    end
  end

  -- Returns a reader for each kind with room, of the jobs in a state up to a time.
  local function readers_of(state, last)
    local readers, last_text = {}, time_text(last)
    local size = math.min(most, math.ceil(most / #rooms) + 1)
    -- Often there is no such job of any kind.
    for _, room in ipairs(first_of(ALL[state]) <= last and rooms or {}) do
      if room.left > 0 then
        local begin = room.begin .. state
        push(readers, { room = room, state = state, begin = begin, size = math.min(size, room.left),
          from = '[' .. begin, to = '(' .. begin .. last_text .. '~' })
      end
    end
    return readers
  end

  -- Visits the jobs of all kinds in some states, each up to a time, by time and id, until `visit` returns false. Begins
  -- with few jobs of each kind, and reads on where they do not suffice.
  local function each(lasts, visit)
    -- Positions in order, and by position the reader and the job.
    local order, readers, jobs = {}, {}, {}
    local function read_on(reader)
      local entries = redis.call('ZRANGEBYLEX', KINDS, reader.from, reader.to, 'LIMIT', 0, reader.size)
      local last = entries[reader.size]
      for _, entry in ipairs(entries) do
        local position = string.sub(entry, -33)
        push(order, position)
        readers[position] = reader
      end
      reader.last, reader.from, reader.size = last and string.sub(last, -33), last and '(' .. last, grown(reader.size)
    end
    for state, last in pairs(lasts) do
      for _, reader in ipairs(readers_of(state, last)) do
        read_on(reader)
      end
    end
    table.sort(order)
    -- Jobs that lose expired leases to others are free, so they may not be found by reading on. Urgent ones are.
    local fenced_off = limiter and lasts.h and limiter.fenced_off or {}
    local after_those = #fenced_off
    local function add_fenced_off()
      for index = after_those + 1, #fenced_off do
        local job = fenced_off[index]
        local position = time_text(job.due) .. job.id
        if not readers[position] then
          push(order, position)
          readers[position], jobs[position] = { room = by_kind[extras_of(job).kind] }, job
        end
      end
      if #fenced_off > after_those then
        after_those = #fenced_off
        table.sort(order)
      end
    end
    local at, others = 1, #leases
    while order[at] do
      if jobs[order[at]] == nil then
        local unread, not_claimed = {}, at - 1 - (#leases - others)
        for index = at, math.min(#order, at - 1 + most - #leases + math.min(not_claimed, PARK_LIMIT)) do
          push(unread, jobs[order[index]] == nil and order[index] or nil)
        end
        read_jobs(unread, readers, jobs)
      end
      local position = order[at]
      local job, reader = jobs[position], readers[position]
      at = at + 1
      -- A job that has to wait, as an urgent one or for another, has another time.
      if job and job.due == due_of(position) and not visit(job, job.due, reader.room) or #leases == most then
        return
      end
      add_fenced_off()
      if position == reader.last and reader.room.left > 0 then
        read_on(reader)
        table.sort(order)
      end
    end
  end

  -- Returns the earliest time of jobs in a state, of kinds of which the claim could take more. `of_all`: that of the
  -- jobs of all kinds, and without one.
  local function first_in(state, of_all)
    local first = NEVER
    for _, room in ipairs(rooms) do
      if room.left > 0 and first > of_all then
        local begin = room.begin .. state
        local entry = redis.call('ZRANGEBYLEX', KINDS, '[' .. begin, '(' .. begin .. '~', 'LIMIT', 0, 1)[1]
        first = math.min(first, entry and due_of(string.sub(entry, -33)) or NEVER)
      end
    end
    return first
  end

  local function room_of(kind)
    return by_kind[kind]
  end

  local function has_room(kind)
    return by_kind[kind] and by_kind[kind].left > 0
  end

  kinds = { each = each, first_in = first_in, room_of = room_of, has_room = has_room }
end

