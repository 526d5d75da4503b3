-- ARGV: a limit, and the score and the member of the last one shown. What is found goes on behind
-- it, the newest first.
local limit, from, after, skipped, found, more, name = tonumber(ARGV[1]), ARGV[2], ARGV[3], 0, {}, ''
if from == '' then from = '-inf' end
while true do -- records of one microsecond stand in the order of their members
  local page = redis.call('ZRANGEBYSCORE', KEYS[2], from, 0, 'WITHSCORES', 'LIMIT', skipped, limit)
  for j = 1, #page, 2 do
    local member = string.sub(page[j], 3)
    if after == '' or page[j + 1] ~= ARGV[2] or member > after then
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
