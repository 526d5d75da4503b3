-- Returns the commands that the user of this connection may not use here.
local key, missing = KEYS[1], {}
for _, command in ipairs({
  { 'time' }, { 'evalsha', 'x', '1', key }, { 'get', key }, { 'getrange', key, '0', '0' }, { 'set', key, 'x' }, { 'del', key }, { 'exists', key },
  { 'persist', key }, { 'pexpireat', key, '1' }, { 'zadd', key, '1', 'x' }, { 'zrem', key, 'x' }, { 'zrange', key, '0', '0' },
  { 'zrevrange', key, '0', '0' }, { 'zrangebyscore', key, '0', '0' }, { 'zrevrangebyscore', key, '0', '0' }, { 'zremrangebyscore', key, '0', '0' },
  { 'zcount', key, '0', '0' }, { 'zscore', key, 'x' }, { 'xadd', key, '*', 'x', 'x' }, { 'xrevrange', key, '+', '-' },
  ARGV[1] == '0' and { 'time' } or { 'wait', '1', '1' },
}) do
  local known, may = pcall(redis.acl_check_cmd, unpack(command))
  if known and not may then missing[#missing + 1] = '+' .. command[1] end
end
return missing
