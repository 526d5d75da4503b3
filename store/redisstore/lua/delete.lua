-- ARGV: member, previous version
local have = redis.call('HMGET', KEYS[1], 'v', 'nk', 'ni')
if not have[1] then return { 'gone' } end
if have[1] ~= ARGV[2] then return { 'stale' } end
rename(ARGV[1], have[2], have[3], '', '')
redis.call('DEL', KEYS[1])
forget(ARGV[1])
return { 'ok' }
