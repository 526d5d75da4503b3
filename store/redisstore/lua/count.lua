-- ARGV: the states
local n = 0
for i = 1, #ARGV do n = n + redis.call('ZCARD', dueKey(ARGV[i])) end
return n
