-- ARGV: member, version, state, head, body, due in us, lifetime in ms, downstream key, downstream id, previous version,
-- keep the body (0, 1), a new life (0, 1), what CompletedAt is (now, keep, none), the note's entry
local now = micros()
local have = redis.call('HMGET', KEYS[1], 'v', 's', 'h', 'c', 'u', 'd', 'e', 'nk', 'ni')
if not have[1] then return { 'gone' } end
if have[1] ~= ARGV[10] then return { 'stale', text(now), have[1], have[3], have[4], have[5], have[6], have[7] } end
local at, created, ended = due(now, ARGV[6]), have[4], ''
if ARGV[12] == '1' then created = text(now) end
if ARGV[13] == 'now' then ended = text(now) elseif ARGV[13] == 'keep' then ended = have[7] end
redis.call('HSET', KEYS[1], 'v', ARGV[2], 's', ARGV[3], 'h', ARGV[4], 'c', created, 'u', text(now), 'd', at, 'e', ended, 'nk', ARGV[8], 'ni', ARGV[9])
if ARGV[11] == '0' then redis.call('HSET', KEYS[1], 'b', ARGV[5]) end
if have[2] ~= ARGV[3] then redis.call('ZREM', dueKey(have[2]), ARGV[1]) end
redis.call('ZADD', dueKey(ARGV[3]), score(at), ARGV[1])
if created ~= have[4] then redis.call('ZADD', shard .. ':all', created, ARGV[1]) end
if have[8] ~= ARGV[8] or have[9] ~= ARGV[9] then rename(ARGV[1], have[8], have[9], ARGV[8], ARGV[9]) end
if ARGV[14] ~= '' then redis.call('XADD', shard .. ':history', '*', 'm', ARGV[1], 'f', have[2], 't', ARGV[3], 'a', text(now), 'n', ARGV[14]) end
outlive(ARGV[7])
return { 'ok', text(now), created, text(now), at, ended }
