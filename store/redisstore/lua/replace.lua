-- ARGV: member, version, state, head, body, due in us, lifetime in ms, downstream key, downstream id, previous version,
-- keep the body (0, 1), a new life (0, 1), what CompletedAt is (now, keep, none), the note's entry
local now = micros()
local have, r = peek(KEYS[1])
if have == '' then return { 'gone' } end
if not r or r.version ~= ARGV[10] then return { 'stale', text(now), have } end
local at, created, ended, body = due(now, ARGV[6]), r.created, 0, ARGV[5]
if ARGV[12] == '1' then created = now end
if ARGV[13] == 'now' then ended = now elseif ARGV[13] == 'keep' then ended = r.ended end
if ARGV[11] == '1' then body = redis.call('GETRANGE', KEYS[1], r.size, -1) end
local now_text, at_text, created_text = text(now), text(at), text(created)
put(pack(ARGV[2], ARGV[3], created, now, at, ended, ARGV[8], ARGV[9], ARGV[4], body), ARGV[7])
if r.state ~= tonumber(ARGV[3]) then redis.call('ZREM', dueKey(r.state), ARGV[1]) end
redis.call('ZADD', dueKey(ARGV[3]), score(at, at_text), ARGV[1])
if created ~= r.created then redis.call('ZADD', shard .. ':all', created_text, ARGV[1]) end
if r.key ~= '' or r.id ~= '' or ARGV[8] ~= '' or ARGV[9] ~= '' then rename(ARGV[1], r.key, r.id, ARGV[8], ARGV[9], ARGV[7]) end
if ARGV[14] ~= '' then
  redis.call('XADD', shard .. ':history', '*', 'm', ARGV[1], 'f', r.state, 't', ARGV[3], 'a', now_text, 'n', ARGV[14])
end
return { 'ok', now_text, created_text, now_text, at_text, ended == now and now_text or text(ended) }
