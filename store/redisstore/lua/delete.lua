-- ARGV: member, previous version
local have, r = peek(KEYS[1])
if have == '' then return { 'gone' } end
if not r or r.version ~= ARGV[2] then return { 'stale' } end
rename(ARGV[1], r.key, r.id, '', '', '0')
redis.call('DEL', KEYS[1])
forget(ARGV[1])
return { 'ok' }
