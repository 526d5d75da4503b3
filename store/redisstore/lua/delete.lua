-- ARGV: format and version of what it deletes
local have = redis.call('GETRANGE', KEYS[1], '0', '69')
if have == '' then return 'gone' end
if string.sub(have, 49, 49) ~= string.sub(ARGV[1], 1, 1) then return 'foreign' end
if string.sub(have, 49, 57) ~= ARGV[1] then return 'stale' end
local due = string.sub(KEYS[1], #KEYS[2] + 3)
if string.byte(have, 58) == 2 then -- a result; caches do not have it when its time is over, as the reaper's
  local t = redis.call('TIME')
  local place = redis.call('ZSCORE', KEYS[2], due) or '0'
  if place - 2e15 > t[1] * 1e5 + t[2] / 10 then
    redis.pcall('PUBLISH', string.match(KEYS[2], '{(.*):') .. ':results', string.sub(redis.sha1hex(string.sub(due, 2)), 1, 8))
  end
end
local key, id = names(have)
rename(key, id, '', '', '0')
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], due, 'r' .. due, 't' .. due)
return 'ok'
