-- ARGV: the entry of what changed no record
redis.call('XADD', KEYS[2] .. ':history', '*', 'm', string.sub(KEYS[1], #KEYS[2] + 4), 'f', '0', 't', '0', 'a', now, 'n', ARGV[1])
return 'ok'
