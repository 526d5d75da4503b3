// Package figures counts what requests are told, and shares it among the processes that work on one
// store: for the pages and documents of package admin.
//
// A [Board] observes the events of an engine. It keeps an hour in steps of 15 s and a day in steps
// of 15 min, the results of each route, how often unknown keys are asked about, and which keys were
// last used for another request:
//
//	board := figures.New(figures.Config{Version: "v1.2.3"})
//	engine, err := stet.New(store, stet.Config{Observe: board.Observe})
//	...
//	go board.Run(ctx, engine)
//	handler := admin.New(engine, admin.Config{Config: operate.Config{Figures: board.Figures, Asking: board.Asking}})
//
// Observing an event costs a few additions in memory, and never a call of the store.
//
// # How processes share them
//
// [Board.Run] writes the figures of its process into one record of [stet.OwnScope] every 5 s, which
// also renews the record's lease. A reader merges the records of all. A record whose lease is over
// belongs to a process that is gone. A process that ends says so in its last write. The next
// process to start takes over the record of one that has ended, or that is gone from the same host,
// and goes on with its figures: a restart loses none. A process that was only away finds its
// record taken: it leaves to the other what that goes on with, and begins a record anew. A record
// that is not written for a day is told no longer, and removed.
//
// There are 64 records at most. Processes beyond these publish nothing; they still see the figures
// of the others, and their own. A record holds 64 KiB at most; one from which something was left
// out says so, and readers take no more from a record than a board publishes.
//
// Who asks about which key is remembered of 250 keys. Beyond them the fifth that was quiet for
// longest is forgotten, and every count since then is a lower bound, which says so.
//
// All instants are the store's: a process learns the store's time from the answers to its writes,
// and measures with its monotonic clock in between. A host's clock that is wrong, or that is set
// back, moves nothing.
package figures
