-- ARGV: a limit, and a name. Those that have not ended come first.
local found, more, name = {}, '', KEYS[2] .. ':name:' .. ARGV[2]
for _, member in ipairs(redis.call('ZREVRANGE', name, 0, ARGV[1] - 1)) do found[#found + 1] = { member, '' } end
