local have = redis.call('HMGET', KEYS[1], 'v', 'h', 'b', 'c', 'u', 'd', 'e')
if not have[1] then return { 'gone' } end
return { 'exists', text(micros()), unpack(have) }
