-- ARGV: a limit, the score and the member of the last one shown, and 'back' or ''. What is found goes
-- on behind it, the newest first or, if back, the oldest.
local limit, from, after, back, skipped, found, more, name = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4] == 'back', 0, {}, ''
if from == '' then from = back and '0' or '-inf' end
while true do -- records of one microsecond stand in the order of their members
  local page = back and redis.call('ZREVRANGEBYSCORE', KEYS[2], from, '-inf', 'WITHSCORES', 'LIMIT', skipped, limit) or
    redis.call('ZRANGEBYSCORE', KEYS[2], from, 0, 'WITHSCORES', 'LIMIT', skipped, limit)
  for j = 1, #page, 2 do
    local member = string.sub(page[j], 3)
    if after == '' or page[j + 1] ~= ARGV[2] or member ~= after and (member > after) ~= back then
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
