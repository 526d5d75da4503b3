-- ARGV: the identity of the store in its first place, which has been raised. Returns the identity here then.
local is = redis.call('GET', KEYS[3])
if string.sub(is, 1, 16) >= string.sub(ARGV[1], 1, 16) then return is end
redis.call('SET', KEYS[3], ARGV[1])
return ARGV[1]
