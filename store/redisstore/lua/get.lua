-- ARGV: how many bytes a body may have to be read.
local have = redis.call('GET', KEYS[1])
if not have then return 'gone' end
local most = tonumber(ARGV[1])
-- Only what fits leaves the server: a large body is left, and how many bytes it has is told.
if #have > most then
  local key, id, size = struct.unpack('>I4I4I4', have, 59)
  size = 70 + key + id + size
  if size > #have then size = 70 end -- it is torn, which its reader sees
  if #have - size > most then return { now, string.sub(have, 1, size), #have - size } end
end
return { now, have }
