// Package redisstore keeps records in Redis, Valkey or Redis Cluster, through whatever client the caller has: see [Client].
// Adapters for two of them are modules beside it: goredisclient and rueidisclient.
//
// Each record is one string, in one slot with the indexes of its shard; every verb is one script, so that it is atomic, and the
// server's clock is the store's. Records that are over vanish by themselves some time after nobody reaped them; running and
// unknown ones never do.
//
// What is promised rests on the server's settings. A server that evicts (maxmemory-policy) is refused: it would forget that
// something ran. Without persistence a restart forgets everything, and a failover can lose the last writes: Config.Wait makes a
// write wait for replicas, and one that they did not confirm is an error that says it may have happened. A master without
// persistence that is restarted before its replica has taken over comes back empty, and empties the replica. Where a lost record
// must never mean a second execution, use a store that commits.
//
// It needs Redis 7 or a Valkey. A server that is full (maxmemory) refuses new records, and lets end what runs.
package redisstore
