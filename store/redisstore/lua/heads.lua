-- ARGV: how, a limit, and for due: how many to skip, the states; list: the cursor's score and member; named: the name.
-- Returns now, whether there may be more, and for each record: member, score, and all before its body.
local now, limit = micros(), tonumber(ARGV[2])
local found, more = {}, '0'
if ARGV[1] == 'due' then
  for i = 4, #ARGV do
    local due = redis.call('ZRANGEBYSCORE', dueKey(ARGV[i]), '-inf', text(now), 'WITHSCORES', 'LIMIT', ARGV[3], limit)
    for j = 1, #due do found[#found + 1] = due[j] end
    if #due == 2 * limit then more = '1' end
  end
elseif ARGV[1] == 'list' then
  local from, after, skipped = ARGV[3], ARGV[4], 0
  if from == '' then from = '+inf' end
  while true do -- records of one microsecond stand in the order of their members
    local page = redis.call('ZREVRANGEBYSCORE', shard .. ':all', from, '-inf', 'WITHSCORES', 'LIMIT', skipped, limit)
    for j = 1, #page, 2 do
      if after == '' or page[j + 1] ~= ARGV[3] or page[j] < after then
        if #found < 2 * limit then
          found[#found + 1] = page[j]
          found[#found + 1] = page[j + 1]
        else
          more = '1'
        end
      end
    end
    skipped = skipped + #page / 2
    if #page < 2 * limit then break end
    if #found >= 2 * limit then
      more = '1'
      break
    end
  end
else
  local members = redis.call('SMEMBERS', shard .. ':name:' .. ARGV[3])
  for j = 1, #members do
    found[#found + 1] = members[j]
    found[#found + 1] = '0'
  end
end
local out = { text(now), more }
for j = 1, #found, 2 do
  local have = peek(shard .. ':r:' .. found[j])
  if have ~= '' then
    out[#out + 1] = { found[j], found[j + 1], have }
  else -- it had outlived its retention, and nobody had reaped it
    forget(found[j])
    if ARGV[1] ~= 'due' and ARGV[1] ~= 'list' then redis.call('SREM', shard .. ':name:' .. ARGV[3], found[j]) end
  end
end
return out
