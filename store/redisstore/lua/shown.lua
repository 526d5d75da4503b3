-- What is shown of what was found, in an index of names or not. Returns now, whether there may be
-- more, and for each record found: member, score, and all before its body.
local out = { now, more }
for j = 1, #found do
  local member = found[j][1]
  local record = KEYS[2] .. ':r:' .. member
  local have = redis.call('GETRANGE', record, 0, 4095)
  if have ~= '' then
    found[j][3] = head(record, have)
    out[#out + 1] = found[j]
  else -- it had outlived its retention without being reaped
    redis.call('ZREM', KEYS[2], 'r:' .. member, ':' .. member, 't:' .. member)
    if name then redis.call('ZREM', name, member) end
  end
end
return out
