-- ARGV: whose turn it is, '' or how many ms a turn lasts, where it begins with this; and for each entry that is added to the copy
-- of the history its name and the values of m, f, t, a and n. Once the copy has come to the last entry, it takes the place of the
-- history: of what a stream deletes, its memory and the server's files would still have the bytes.
local history, copy, turn = KEYS[2] .. ':history', KEYS[2] .. ':copy', KEYS[2] .. ':turn'
if ARGV[2] ~= '' then
  redis.call('DEL', copy)
  redis.call('SET', turn, ARGV[1], 'PX', ARGV[2])
elseif redis.call('GET', turn) ~= ARGV[1] then
  return 'stale'
end
for i = 3, #ARGV, 6 do
  redis.call('XADD', copy, ARGV[i], 'm', ARGV[i + 1], 'f', ARGV[i + 2], 't', ARGV[i + 3], 'a', ARGV[i + 4], 'n', ARGV[i + 5])
end
local last = redis.call('XREVRANGE', history, '+', '-', 'COUNT', 1)[1]
if not last or last[1] ~= ARGV[#ARGV - 5] then
  -- One that is given up goes by itself.
  redis.call('PEXPIREAT', copy, string.format('%d', math.floor(now / 1000) + 60000))
  return 'more'
end
redis.call('PERSIST', copy)
redis.call('RENAME', copy, history)
redis.call('DEL', turn)
return 'ok'
