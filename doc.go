// Package stet makes requests safe to retry: with an idempotency key, an effect happens at most once, the first answer stands
// for every retry, and an outcome that nobody knows is called unknown instead of being guessed.
//
// # What a key promises
//
// Within a [Scope], the first request with a [Key] executes. Whoever sends the same request again gets the first answer;
// whoever sends another request with that key is refused; whoever asks while the first runs is told so, or waits. After a
// crash, a timeout or a lost connection nobody can tell whether the effect happened: then the key is unknown, and nothing
// runs again until there is evidence. Only proof that nothing happened frees a key for a retry.
//
// # How it is built
//
// A [Store] keeps versioned records and judges nothing; one pure function, judge, judges. The [Engine] asks a store for a
// record, has it judged, and writes what the ruling demands. To execute is to hold a [Claim]: a lease that is renewed while
// the handler runs, and a fence that keeps a holder who was overtaken from changing anything.
//
//	 first request        Settle
//	───────────────▶ Running ───▶ Completed ──(retention over)──▶ gone, or Expired
//	                  │   ▲ └────▶ Retryable: proven that nothing happened; one retry runs
//	      lease over, │   │ a retry, or a recovery point
//	      panic, lost ▼   │
//	                 Unknown ───▶ Completed or Retryable, by evidence only
//
// # Rooms
//
// Faces: package stethttp for net/http, package gateway for an API in any language, [Do] for everything without HTTP; stettest
// checks a service that uses one of them.
//
// Stores: store/memstore, store/filestore, store/sqlstore (SQLite, Postgres, MySQL, MariaDB), store/pgxstore and store/redisstore,
// whose clients are in store/redisstore/goredisclient and store/redisstore/rueidisclient. Around them: store/sealstore encrypts,
// store/tierstore puts a cache in front, store/breakerstore gives a server that is sick a rest. store/storetest holds the
// laws they all keep, and store/storetest/faulty breaks them on purpose.
//
// Work that goes on: package flow has runs with recovery points, package outbox effects for other systems (outbox/riveroutbox hands them
// to River), package maintenance the loops that tidy a store, package reconcile
// finds out about unknown outcomes (reconcile/compare lays two ledgers side by side), and package bulk changes of many records at once.
//
// What an operator sees: package admin, the program stet in cmd/stet, and docs/problems, a page for every problem code.
package stet
