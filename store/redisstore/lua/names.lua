-- rename makes a record known further down by two names, which may be one, in the place of two others. A name's index lives as
-- long as the record that has it; one that several records have, as long as the longest of them.
local function rename(old1, old2, new1, new2, ms)
  local member, of = string.sub(KEYS[1], #KEYS[2] + 4), KEYS[2] .. ':name:'
  for _, old in ipairs({ old1, old2 }) do
    if old ~= '' and old ~= new1 and old ~= new2 then redis.call('SREM', of .. old, member) end
  end
  for _, new in ipairs({ new1, new2 }) do
    if new ~= '' then
      redis.call('SADD', of .. new, member)
      local left = redis.call('PTTL', of .. new)
      if ms == '0' then
        redis.call('PERSIST', of .. new)
      elseif redis.call('SCARD', of .. new) == 1 or left >= 0 and left < tonumber(ms) then
        redis.call('PEXPIRE', of .. new, ms)
      end
    end
  end
end

-- names are those that a record has now. Few have any.
local function names(have)
  if string.sub(have, 59, 66) == '\0\0\0\0\0\0\0\0' then return '', '' end
  local key, id = struct.unpack('>I4I4', have, 59)
  have = redis.call('GETRANGE', KEYS[1], 70, 69 + key + id)
  return string.sub(have, 1, key), string.sub(have, key + 1)
end
