-- ARGV: an identity, '' for none, and another one in its place.
if (redis.call('GET', KEYS[3]) or '') == ARGV[1] then redis.call('SET', KEYS[3], ARGV[2]) end
return redis.call('GET', KEYS[3])
