-- ARGV: member, version, state, head, body, due in us, lifetime in ms, downstream key, downstream id
local now = micros()
local have = redis.call('HMGET', KEYS[1], 'v', 'h', 'b', 'c', 'u', 'd', 'e')
if have[1] then return { 'exists', text(now), unpack(have) } end
local at, ended = due(now, ARGV[6]), ''
if ARGV[3] == '2' then ended = text(now) end
redis.call('HSET', KEYS[1], 'v', ARGV[2], 's', ARGV[3], 'h', ARGV[4], 'b', ARGV[5], 'c', text(now), 'u', text(now), 'd', at, 'e', ended,
  'nk', ARGV[8], 'ni', ARGV[9])
redis.call('ZADD', dueKey(ARGV[3]), score(at), ARGV[1])
redis.call('ZADD', shard .. ':all', text(now), ARGV[1])
rename(ARGV[1], '', '', ARGV[8], ARGV[9])
outlive(ARGV[7])
return { 'ok', text(now), text(now), text(now), at, ended }
