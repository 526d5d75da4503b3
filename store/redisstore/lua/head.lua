-- head returns a record up to its body, which can be large. have is the beginning of it.
local function head(record, have)
  if #have < 70 then return have, 70 end
  local key, id, size = struct.unpack('>I4I4I4', have, 59)
  size = 70 + key + id + size
  return #have >= size and string.sub(have, 1, size) or redis.call('GETRANGE', record, 0, size - 1), size
end
