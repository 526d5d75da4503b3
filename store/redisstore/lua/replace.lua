-- ARGV: the record but its instants, its place among what is due without the time, in how many us
-- it is due, its lifetime in ms (0: none), the place of its tag or '', format and version of what it
-- replaces, what its completion is (now, kept, none); and if there is any: keep (the body that is
-- there), new (life), the note's entry, its downstream key, its downstream id.
local have = redis.call('GETRANGE', KEYS[1], '0', '69')
if have == '' then return 'gone' end
if string.sub(have, 49, 57) ~= ARGV[6] then
  have = head(KEYS[1], have)
  return { now, have }
end
local was = string.sub(have, 17, 32)
-- Another server's clock, before it was replaced by this one, was ahead: time does not go back (B03).
if was > now then now = was end
-- This fails before anything is written if those are no digits.
local place = string.format('%d', ARGV[2] + math.floor((now + ARGV[3]) / 10))
local created, completed, body = string.sub(have, 1, 16), '0000000000000000', ''
if ARGV[7] == 'now' then completed = now elseif ARGV[7] == 'kept' then completed = string.sub(have, 33, 48) end
if ARGV[8] == 'keep' then
  local _, size = head(KEYS[1], have)
  body = redis.call('GETRANGE', KEYS[1], size, -1)
end
local key, id = names(have)
-- The history is first: a user without rights to it changes nothing.
if ARGV[10] and ARGV[10] ~= '' then
  redis.call('XADD', KEYS[2] .. ':history', '*', 'm', string.sub(KEYS[1], #KEYS[2] + 4),
    'f', string.byte(have, 58), 't', string.byte(ARGV[1], 10), 'a', now, 'n', ARGV[10])
end
if ARGV[9] == 'new' then
  created = now
  redis.call('ZADD', KEYS[2], '-' .. now, string.sub(KEYS[1], #KEYS[2] + 2))
end
local instants = created .. now .. completed
if ARGV[4] == '0' then
  redis.call('SET', KEYS[1], instants .. ARGV[1] .. body)
else
  redis.call('SET', KEYS[1], instants .. ARGV[1] .. body, 'PX', ARGV[4])
end
local due = string.sub(KEYS[1], #KEYS[2] + 3)
if ARGV[5] ~= '' then
  redis.call('ZADD', KEYS[2], place, due, ARGV[5], 't' .. due)
else
  redis.call('ZADD', KEYS[2], place, due)
  redis.call('ZREM', KEYS[2], 't' .. due)
end
if key .. id ~= '' or ARGV[11] then rename(key, id, ARGV[11] or '', ARGV[12] or '', ARGV[4]) end
-- Caches of results listen, for a hash of the member: the channel does not say what keys there are. A
-- user without the right to publish has replaced the record all the same.
if string.byte(have, 58) == 2 then
  redis.pcall('PUBLISH', string.match(KEYS[2], '{(.*):') .. ':results', string.sub(redis.sha1hex(string.sub(KEYS[1], #KEYS[2] + 4)), 1, 8))
end
return instants
