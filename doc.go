// Package stet makes requests safe to retry. Each request carries an idempotency key: its effect
// happens at most once, every retry receives the first answer, and an outcome that cannot be known
// is reported as unknown instead of being guessed.
//
// # What a key promises
//
// Within a [Scope], the first request with a [Key] is executed. A retry of the same request
// receives the stored answer. A different request with the same key is refused. A retry that
// arrives while the first request still runs is told so, or waits.
//
// A crash, a timeout or a lost connection can leave open whether the effect happened. The key is
// unknown then, and nothing runs again until there is evidence. Only proof that nothing happened
// frees a key for another execution.
//
// # How it works
//
// A [Store] keeps versioned records and decides nothing. One pure function, judge, holds all the
// rules about requests. The [Engine] reads a record, asks judge, and writes the move that the
// ruling needs.
//
// A request that may execute holds a [Claim]. The claim is a lease: a heartbeat renews it while the
// handler runs. It is also a fence: a holder whose lease was lost can no longer change the record,
// and every write that it tries fails with [ErrFenced].
//
//	 first request        Settle
//	───────────────▶ Running ───▶ Completed ──(retention over)──▶ gone, or Expired
//	                  │   ▲ └────▶ Retryable: proof that nothing happened; one retry runs
//	   lease lapsed,  │   │ a retry, or a recovery point
//	     panic, lost  ▼   │
//	                 Unknown ───▶ Completed or Retryable, on evidence only
//
// # Where to start
//
// A net/http service wraps its handler with package stethttp. An API in another language stands
// behind the program stet, or behind package gateway. [Do] runs a function once per key where there
// is no HTTP: a queue consumer, a scheduled job, a gRPC method. [Engine.Begin] is what all of them
// are built on. [Operator] is for tools and background loops.
//
// A process that serves requests also runs the loops of packages maintenance and reconcile.
//
// # Packages
//
// Requests:
//
//	stethttp                             middleware for net/http
//	gateway                              a reverse proxy for an API in any language
//	flow                                 runs of several steps, with recovery points
//	outbox                               effects on other systems, added in a transaction
//	outbox/riveroutbox                   an outbox that hands its messages to River
//
// Stores:
//
//	store/memstore                       records in memory
//	store/filestore                      records in a directory
//	store/sqlstore                       SQLite, Postgres, MySQL and MariaDB through database/sql
//	store/pgxstore                       Postgres through pgx
//	store/redisstore                     Redis and Redis Cluster
//	store/redisstore/goredisclient       redisstore with go-redis
//	store/redisstore/rueidisclient       redisstore with rueidis
//
// Wrappers of a store:
//
//	store/sealstore                      compresses and encrypts what a record holds
//	store/tierstore                      puts a cache in front
//	store/breakerstore                   refuses calls for a while when the store fails
//
// Operation:
//
//	maintenance                          background loops: lapsed leases and expired records
//	reconcile                            finds out what became of unknown outcomes
//	reconcile/compare                    compares a service's books with its provider's
//	operate                              what operators do with the records of an engine
//	admin                                the same as a JSON API
//	admin/adminclient                    a client of that API
//	admin/console                        the pages in front of it
//	operate/fleet                        which processes share a store, and what each has told clients
//	cmd/stet                             the program: gateway, console, command line (docs/cli.md)
//	docs/problems                        the problem codes of HTTP answers, a page for each
//
// Tests:
//
//	stettest                             checks a service that uses stet
//	store/storetest                      the laws that every store keeps
//	store/storetest/faulty               a store that fails on purpose
//
// internal holds what these share, examples shows them at work.
package stet
