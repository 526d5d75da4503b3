-- ARGV: member, version, state, head, body, due in us, lifetime in ms, downstream key, downstream id
local now = micros()
local have = redis.call('GET', KEYS[1])
if have then return { 'exists', text(now), have } end
local at, ended = due(now, ARGV[6]), 0
if ARGV[3] == '2' then ended = now end
local now_text, at_text = text(now), text(at) -- formatting is a good part of what this costs
put(pack(ARGV[2], ARGV[3], now, now, at, ended, ARGV[8], ARGV[9], ARGV[4], ARGV[5]), ARGV[7])
redis.call('ZADD', dueKey(ARGV[3]), score(at, at_text), ARGV[1])
redis.call('ZADD', shard .. ':all', now_text, ARGV[1])
if ARGV[8] ~= '' or ARGV[9] ~= '' then rename(ARGV[1], '', '', ARGV[8], ARGV[9], ARGV[7]) end
sweep(now, now_text)
return { 'ok', now_text, now_text, now_text, at_text, text(ended) }
