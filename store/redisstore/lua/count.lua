-- ARGV: the states
local n = 0
for i = 1, #ARGV do n = n + redis.call('ZCOUNT', KEYS[2], ARGV[i] * 1e15, '(' .. (ARGV[i] + 1) .. 'e15') end
return n
