-- ARGV: how, a limit, and for due: how many to skip, the states; list: the cursor's score and member; named: the name.
-- Returns now, whether there may be more, and for each record: member, score, and all before its body.
local limit, found, more = tonumber(ARGV[2]), {}, '0'
if ARGV[1] == 'due' then
  for i = 4, #ARGV do
    local from = ARGV[i] * 1e15
    local due = redis.call('ZRANGEBYSCORE', KEYS[2], from, from + now / 10, 'LIMIT', ARGV[3], limit)
    for j = 1, #due do found[#found + 1] = { string.sub(due[j], 2), '0' } end
    if #due == limit then more = '1' end
  end
elseif ARGV[1] == 'list' then
  local from, after, skipped = ARGV[3], ARGV[4], 0
  if from == '' then from = '-inf' end
  while true do -- records of one microsecond stand in the order of their members
    local page = redis.call('ZRANGEBYSCORE', KEYS[2], from, 0, 'WITHSCORES', 'LIMIT', skipped, limit)
    for j = 1, #page, 2 do
      local member = string.sub(page[j], 3)
      if after == '' or page[j + 1] ~= ARGV[3] or member > after then
        if #found < limit then found[#found + 1] = { member, page[j + 1] } else more = '1' end
      end
    end
    skipped = skipped + #page / 2
    if #page < 2 * limit then break end
    if #found >= limit then
      more = '1'
      break
    end
  end
else
  for _, member in ipairs(redis.call('SMEMBERS', KEYS[2] .. ':name:' .. ARGV[3])) do found[#found + 1] = { member, '0' } end
end
local out = { now, more }
for j = 1, #found do
  local member = found[j][1]
  local record = KEYS[2] .. ':r:' .. member
  local have = redis.call('GETRANGE', record, 0, 4095)
  if have ~= '' then
    found[j][3] = head(record, have)
    out[#out + 1] = found[j]
  else -- it had outlived its retention, and nobody had reaped it
    redis.call('ZREM', KEYS[2], 'r:' .. member, ':' .. member)
    if ARGV[1] == 'named' then redis.call('SREM', KEYS[2] .. ':name:' .. ARGV[3], member) end
  end
end
return out
