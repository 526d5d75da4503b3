-- ARGV: how many of each state to look at, and about from where: a place in time, in units of 10
-- us; the states. What is found is all that is due from there up to another place in time, which is
-- `more`; '' says that it is all there is.
local limit, from, upto, cut, pages, found, more, name =
  tonumber(ARGV[1]), tonumber(ARGV[2]), math.floor(now / 10), false, {}, {}, ''
for i = 3, #ARGV do
  local state = ARGV[i] * 1e15
  pages[i] = redis.call('ZRANGEBYSCORE', KEYS[2], state + from, state + upto, 'WITHSCORES', 'LIMIT', 0, limit)
  if #pages[i] == 2 * limit then upto, cut = pages[i][2 * limit] - state, true end
end
for i = 3, #ARGV do
  local state, page = ARGV[i] * 1e15, pages[i]
  for j = 1, #page, 2 do
    if page[j + 1] - state < upto then found[#found + 1] = { string.sub(page[j], 2), page[j + 1] } end
  end
  -- What falls due in one place comes together, however much it is: it is in the order of its
  -- members here, not of time.
  for _, due in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], state + upto, state + upto)) do
    found[#found + 1] = { string.sub(due, 2), '' }
  end
end
if cut then more = string.format('%d', upto) end
