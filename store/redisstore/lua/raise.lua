-- ARGV: a step of the trail. Returns the identity then.
local mark, id, made, trail, replaces = string.match(redis.call('GET', KEYS[3]), '^(%d+) (%S+) (%S+) (%S+) (.*)$')
local raised = string.format('%016d ', mark + 1) .. id .. ' ' .. made .. ' ' .. string.sub(ARGV[1] .. (trail == '-' and '' or trail), 1, 128) .. ' ' .. replaces
redis.call('SET', KEYS[3], raised)
return raised
