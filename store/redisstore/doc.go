// Package redisstore keeps records in Redis, Valkey or Redis Cluster, through whatever client the caller has: see [Client].
// Adapters for two of them are modules beside it: goredisclient and rueidisclient.
//
// Each record is one string, in one slot with the indexes of its shard; every verb is one script, so that it is atomic, and the
// server's clock is the store's. Records that are over vanish by themselves some time after nobody reaped them; running and
// unknown ones never do.
//
// What is promised rests on the server's settings. A server that evicts (maxmemory-policy), or that
// writes no append-only file, is refused: it would forget that something ran. [Store.Check] looks
// again. A failover can lose the last writes: Config.Wait makes a write wait for replicas. One that
// they did not confirm is [stet.ErrUnconfirmed]: it may have happened, and stays an error when it
// is sent again and meets itself. What is only read waits for none of them. That many replicas have
// to survive, so have one more. Where a lost record must never mean a second execution, use a store
// that commits.
//
// It needs Redis 7 or a Valkey. A server that is full (maxmemory) refuses new records, and lets end what runs.
package redisstore
