// Package redisstore keeps records in Redis 7, Valkey or Redis Cluster. It sends commands through a
// [Client]; the modules goredisclient and rueidisclient beside this package adapt two libraries.
//
// Each record is one string, in one slot with the indexes of its shard. Every verb is one script
// and therefore atomic. The server's clock is the store's clock. A record that is over vanishes
// [Config.Linger] after its end if it was not reaped; running and unknown records never vanish.
//
// # Identity
//
// A server has the identity of the store once, see [stet.Identified]; in a cluster each shard has
// it. Every script that writes is sent what the store has to be, and writes nothing where the
// server has another one, or less than was seen: after FLUSHALL, after a restart without its file,
// after a backup was restored, after the failover to a replica that had not everything. It costs no
// round trip. [Config.AllowVolatile] changes nothing about it.
//
// # Durability
//
// The promises of this store rest on the server's settings. [Open] refuses a server that evicts
// keys (maxmemory-policy), that writes no append-only file, or that leaves it to its machine when
// that file is on a disk (appendfsync no), because it would forget that something ran. With
// [Config.DurableByService] the append-only file is the business of a service. [Store.Check] reads
// the settings again.
//
// A failover can lose the last writes. With [Config.Wait], a write waits until that many replicas
// have it. If too few confirm it in time, the error is [stet.ErrUnconfirmed]: the write may have
// happened, and the error stays the same when the write is sent again, until the replicas have it.
// Reads do not wait. The store then needs that many replicas to accept any write, so run one more.
// If a lost record must never lead to a second execution, use a store with synchronous commits,
// such as Postgres.
//
// A server that is full (maxmemory) refuses new records with [stet.ErrFull]; executions that have
// begun can still end.
package redisstore
