-- ARGV: format and version of what it deletes
local have = redis.call('GETRANGE', KEYS[1], '0', '69')
if have == '' then return 'gone' end
if string.sub(have, 49, 49) ~= string.sub(ARGV[1], 1, 1) then return 'foreign' end
if string.sub(have, 49, 57) ~= ARGV[1] then return 'stale' end
local key, id = names(have)
rename(key, id, '', '', '0')
redis.call('DEL', KEYS[1])
local due = string.sub(KEYS[1], #KEYS[2] + 3)
redis.call('ZREM', KEYS[2], due, 'r' .. due, 't' .. due)
return 'ok'
