-- ARGV: the place of a tag. Who asks looks whether what is found there has it.
local found, more, name = {}, ''
for _, tagged in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], ARGV[1], ARGV[1])) do found[#found + 1] = { string.sub(tagged, 3), '' } end
