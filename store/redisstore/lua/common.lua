-- KEYS[1] is a record, KEYS[2] the prefix of its shard: all that belongs to a shard is in one slot. Instants are passed as text: a
-- Lua number holds 53 bits. Versions are strings of 8 bytes, and are compared as such.
local shard = KEYS[2]

local function micros()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

local function text(n) return string.format('%.0f', n) end

-- due returns when a record falls due, 0 for never.
local function due(now, us)
  if us == '-1' then return 0 end
  return now + us
end

local function dueKey(state) return shard .. ':due:' .. state end

local function score(at, at_text)
  if at == 0 then return '+inf' end
  return at_text
end

-- A record is one string: the format (1 byte), version (8), state (1), the instants created, updated, due and ended (8 each, 0 for
-- never), the lengths of its two names and of its head (4 each), the names, the head, the body.
local fixed, instants = 54, '>i8i8i8i8I4I4I4'

local function pack(version, state, created, updated, at, ended, key, id, head, body)
  return '\1' .. version .. string.char(state) .. struct.pack(instants, created, updated, at, ended, #key, #id, #head) .. key .. id .. head .. body
end

-- parse returns what scripts need to know of a record, nil if it is none.
local function parse(v)
  if #v < fixed or string.byte(v) ~= 1 then return nil end
  local created, _, _, ended, key, id, head = struct.unpack(instants, v, 11)
  return { version = string.sub(v, 2, 9), state = string.byte(v, 10), created = created, ended = ended, size = fixed + key + id + head,
    key = string.sub(v, fixed + 1, fixed + key), id = string.sub(v, fixed + key + 1, fixed + key + id) }
end

-- peek reads a record up to its body, which can be large. It is empty if there is none.
local function peek(record)
  local v = redis.call('GETRANGE', record, 0, 4095)
  local r = parse(v)
  if r and r.size > #v then v = redis.call('GETRANGE', record, 0, r.size - 1) end
  if r then v = string.sub(v, 1, r.size) end
  return v, r
end

-- put stores a record. It vanishes after ms milliseconds if nothing reaps it; '0': it has to be ended by somebody.
local function put(v, ms)
  if ms == '0' then redis.call('SET', KEYS[1], v) else redis.call('SET', KEYS[1], v, 'PX', ms) end
end

-- rename makes a record known further down by two names, which may be one, in the place of two others. A name's index lives as
-- long as the record that has it; one that several records have, as long as the longest of them.
local function rename(member, old1, old2, new1, new2, ms)
  for _, old in ipairs({ old1, old2 }) do
    if old ~= '' and old ~= new1 and old ~= new2 then redis.call('SREM', shard .. ':name:' .. old, member) end
  end
  for _, new in ipairs({ new1, new2 }) do
    if new ~= '' then
      local key = shard .. ':name:' .. new
      redis.call('SADD', key, member)
      local left = redis.call('PTTL', key)
      if ms == '0' then
        redis.call('PERSIST', key)
      elseif redis.call('SCARD', key) == 1 or left >= 0 and left < tonumber(ms) then
        redis.call('PEXPIRE', key, ms)
      end
    end
  end
end

-- forget drops what the indexes say of a record that is gone.
local function forget(member)
  for state = 1, 5 do redis.call('ZREM', dueKey(state), member) end
  redis.call('ZREM', shard .. ':all', member)
end

-- sweep forgets a few records that have vanished: where no keeper runs, new ones clear the indexes of old ones, each eighth of
-- them up to sixteen.
local function sweep(now, now_text)
  if now % 8 ~= 0 then return end
  local state = ({ 2, 3, 5 })[now / 8 % 3 + 1]
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', dueKey(state), '-inf', now_text, 'LIMIT', 0, 16)) do
    if redis.call('EXISTS', shard .. ':r:' .. member) == 0 then forget(member) end
  end
end
