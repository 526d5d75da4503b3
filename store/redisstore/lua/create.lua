-- ARGV: the record but its instants, its place among what is due without the time, in how many us
-- it is due, its lifetime in ms (0: none), and if it has any: the place of its tag, its downstream
-- key, its downstream id.
local have = redis.call('GET', KEYS[1])
if have then
  -- Only what fits leaves the server: a large body is left, and how many bytes it has is told.
  if #have > 65536 then
    local key, id, size = struct.unpack('>I4I4I4', have, 59)
    size = 70 + key + id + size
    if size > #have then size = 70 end -- it is torn, which its reader sees
    if #have - size > 65536 then return { now, string.sub(have, 1, size), #have - size } end
  end
  return { now, have }
end
local instants = now .. now .. (string.byte(ARGV[1], 10) == 2 and now or '0000000000000000')
if ARGV[4] == '0' then
  redis.call('SET', KEYS[1], instants .. ARGV[1])
else
  redis.call('SET', KEYS[1], instants .. ARGV[1], 'PX', ARGV[4])
end
local all, due, place = string.sub(KEYS[1], #KEYS[2] + 2), string.sub(KEYS[1], #KEYS[2] + 3), string.format('%d', ARGV[2] + math.floor((now + ARGV[3]) / 10))
if ARGV[5] and ARGV[5] ~= '' then
  redis.call('ZADD', KEYS[2], '-' .. now, all, place, due, ARGV[5], 't' .. due)
else
  redis.call('ZADD', KEYS[2], '-' .. now, all, place, due)
end
if ARGV[6] then rename('', '', ARGV[6], ARGV[7] or '', ARGV[4]) end
-- If no maintenance runs, new records clear the index of old ones that have vanished, each eighth of them up to sixteen.
if t[2] % 8 == 0 then
  local from = ({ 2, 3, 5 })[t[2] / 8 % 3 + 1] * 1e15
  for _, due in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], from, from + now / 10, 'LIMIT', 0, 16)) do
    if redis.call('EXISTS', KEYS[2] .. ':r' .. due) == 0 then redis.call('ZREM', KEYS[2], due, 'r' .. due, 't' .. due) end
  end
end
return instants
