-- ARGV: a limit, a name, and with what the members of a scope begin, or ''. Those that have not
-- ended come first.
local found, more, name = {}, '', KEYS[2] .. ':name:' .. ARGV[2]
local limit, scope, page, from = tonumber(ARGV[1]), ARGV[3], 1000, 0
repeat
  local members = redis.call('ZREVRANGE', name, from, from + page - 1)
  for _, member in ipairs(members) do
    if #found < limit and string.sub(member, 1, #scope) == scope then found[#found + 1] = { member, '' } end
  end
  from = from + page
until #members < page or #found == limit
