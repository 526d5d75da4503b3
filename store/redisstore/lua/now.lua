-- KEYS[1] is a record, KEYS[2] the index of its shard; all that belongs to a shard is in one slot, and begins with the index's name.
-- What a script costs is the calls it makes, and then the numbers it formats. So instants are text, 16 digits of microseconds, and
-- are copied; and a script reads of a record what it needs, at fixed places.
local t = redis.call('TIME')
local now = t[1] .. string.sub('00000' .. t[2], -6)
-- A record is one string: the instants created, updated and completed (16 digits each, zeros for never); and what its writer gave:
-- the format (1 byte), version (8), state (1), the lengths of its two names and of its head (4 each), the names, the head, the body.
--
-- The index is one sorted set with up to three elements for each record, two of them an end of the record's key: ':' and the member at
-- the place among what is due, 'r:' and the member at the place among all, and 't:' and the member at the place of its tag, if it has
-- one. Places of what is due are numbers of 16 digits, the state and then when it is due in units of 10 us, rounded down; those among
-- all are minus the microseconds of the creation: the newest is first. Those of tags are from 7e15 on: the first 50 bits of the tag.
