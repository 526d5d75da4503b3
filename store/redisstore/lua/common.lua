-- KEYS[1] is a record, KEYS[2] the prefix of its shard: all that belongs to a shard is in one slot. Numbers of microseconds and
-- versions are passed as text: a Lua number holds 53 bits.
local shard = KEYS[2]
local never = '+inf'

local function micros()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

local function text(n) return string.format('%.0f', n) end

-- due returns when a record falls due, as text, '' for never.
local function due(now, us)
  if us == '-1' then return '' end
  return text(now + us)
end

local function dueKey(state) return shard .. ':due:' .. state end

local function score(at)
  if at == '' then return never end
  return at
end

-- rename makes a record known further down by two names, which may be one, in the place of two others.
local function rename(member, old1, old2, new1, new2)
  for _, old in ipairs({ old1, old2 }) do
    if old ~= '' and old ~= new1 and old ~= new2 then redis.call('SREM', shard .. ':name:' .. old, member) end
  end
  for _, new in ipairs({ new1, new2 }) do
    if new ~= '' then redis.call('SADD', shard .. ':name:' .. new, member) end
  end
end

-- outlive keeps a record that nothing reaps from staying for ever; '0': it has to be ended by somebody.
local function outlive(ms)
  if ms == '0' then redis.call('PERSIST', KEYS[1]) else redis.call('PEXPIRE', KEYS[1], ms) end
end

-- forget drops what the indexes say of a record that is gone.
local function forget(member)
  for state = 1, 5 do redis.call('ZREM', dueKey(state), member) end
  redis.call('ZREM', shard .. ':all', member)
end
