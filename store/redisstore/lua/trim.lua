-- ARGV: from which age on (us), and how many at most. Returns how many are gone.
local n, before = 0, now - ARGV[1]
for _, entry in ipairs(redis.call('XRANGE', KEYS[2] .. ':history', '-', '+', 'COUNT', ARGV[2])) do
  local instant = entry[2][8] -- the value of 'a'
  if tonumber(instant) > before then break end
  -- A copy that is being made has it, and must not bring it back.
  if n == 0 then redis.call('DEL', KEYS[2] .. ':turn') end
  n = n + redis.call('XDEL', KEYS[2] .. ':history', entry[1])
end
return n
