-- ARGV: the record but its instants, its place among what is due without the time, its lifetime in ms (0: somebody has to end it),
-- format and version of what it replaces, what its completion is (now, kept, none); and if there is any: keep (the body that is
-- there), new (life), the note's entry, its downstream key, its downstream id.
local have = redis.call('GETRANGE', KEYS[1], '0', '69')
if have == '' then return 'gone' end
if string.sub(have, 49, 57) ~= ARGV[4] then
  have = head(KEYS[1], have)
  return { now, have }
end
local created, completed, body = string.sub(have, 1, 16), '0000000000000000', ''
if ARGV[5] == 'now' then completed = now elseif ARGV[5] == 'kept' then completed = string.sub(have, 33, 48) end
if ARGV[6] == 'keep' then
  local _, size = head(KEYS[1], have)
  body = redis.call('GETRANGE', KEYS[1], size, -1)
end
local key, id = names(have)
if ARGV[7] == 'new' then
  created = now
  redis.call('ZADD', KEYS[2], '-' .. now, string.sub(KEYS[1], #KEYS[2] + 2))
end
local instants = created .. now .. completed
if ARGV[3] == '0' then
  redis.call('SET', KEYS[1], instants .. ARGV[1] .. body)
else
  redis.call('SET', KEYS[1], instants .. ARGV[1] .. body, 'PX', ARGV[3])
end
redis.call('ZADD', KEYS[2], string.format('%d', ARGV[2] + now / 10), string.sub(KEYS[1], #KEYS[2] + 3))
if key .. id ~= '' or ARGV[9] then rename(key, id, ARGV[9] or '', ARGV[10] or '', ARGV[3]) end
if ARGV[8] and ARGV[8] ~= '' then
  redis.call('XADD', KEYS[2] .. ':history', '*', 'm', string.sub(KEYS[1], #KEYS[2] + 4),
    'f', string.byte(have, 58), 't', string.byte(ARGV[1], 10), 'a', now, 'n', ARGV[8])
end
return instants
