-- Records known further down by one name are in one sorted set, by the millisecond in which each
-- vanishes by itself; 'inf' is never. The set lasts as long as the last of them.
local function last(name)
  local ends = redis.call('ZRANGE', name, -1, -1, 'WITHSCORES')[2]
  if ends == 'inf' then
    redis.call('PERSIST', name)
  elseif ends then
    redis.call('PEXPIREAT', name, string.format('%d', ends))
  end
end

-- rename makes a record known by two names, which may be one, in the place of two others. ms is the
-- record's lifetime. The clock is the server's, by which records vanish. Without new names t is not
-- needed.
local function rename(old1, old2, new1, new2, ms)
  local member, of = string.sub(KEYS[1], #KEYS[2] + 4), KEYS[2] .. ':name:'
  for _, old in ipairs({ old1, old2 }) do
    if old ~= '' and old ~= new1 and old ~= new2 and redis.call('ZREM', of .. old, member) == 1 then last(of .. old) end
  end
  for _, new in ipairs({ new1, new2 }) do
    if new ~= '' then
      local clock = t[1] * 1000 + math.floor(t[2] / 1000)
      redis.call('ZREMRANGEBYSCORE', of .. new, '-inf', clock)
      redis.call('ZADD', of .. new, ms == '0' and 'inf' or string.format('%d', clock + ms), member)
      last(of .. new)
    end
  end
end

-- names are those that a record has now. Few have any. While their slot is on its way to another server, this fails if that has
-- the sets already, before anything was written.
local function names(have)
  if string.sub(have, 59, 66) == '\0\0\0\0\0\0\0\0' then return '', '' end
  local key, id = struct.unpack('>I4I4', have, 59)
  have = redis.call('GETRANGE', KEYS[1], 70, 69 + key + id)
  local of = KEYS[2] .. ':name:'
  redis.call('EXISTS', of .. string.sub(have, 1, key))
  redis.call('EXISTS', of .. string.sub(have, key + 1))
  return string.sub(have, 1, key), string.sub(have, key + 1)
end
