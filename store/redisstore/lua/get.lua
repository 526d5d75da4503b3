local have = redis.call('GET', KEYS[1])
if not have then return 'gone' end
return { now, have }
