-- KEYS[3] is the identity of the store, as this script's server has it: the mark (16 digits), the ID, when it was made (us), the
-- trail ('-' for none), the IDs that it replaces. The last of ARGV is how that has to begin, with this mark at least; '' is not looked at.
local last = #ARGV
local known = ARGV[last]
ARGV[last] = nil
if known ~= '' then
  local is = redis.call('GETRANGE', KEYS[3], 0, #known - 1)
  if is ~= known and (is < known or string.sub(is, 17) ~= string.sub(known, 17)) then return 'other' end
end
