-- ARGV: member, version, state, head, body, due in us, lifetime in ms, downstream key, downstream id
local now = micros()
local have = redis.call('GET', KEYS[1])
if have then return { 'exists', text(now), have } end
local at, ended = due(now, ARGV[6]), 0
if ARGV[3] == '2' then ended = now end
put(pack(ARGV[2], ARGV[3], now, now, at, ended, ARGV[8], ARGV[9], ARGV[4], ARGV[5]), ARGV[7])
redis.call('ZADD', dueKey(ARGV[3]), score(at), ARGV[1])
redis.call('ZADD', shard .. ':all', text(now), ARGV[1])
rename(ARGV[1], '', '', ARGV[8], ARGV[9], ARGV[7])
sweep(now)
return { 'ok', text(now), text(now), text(now), text(at), text(ended) }
