// Package maintenance runs the background loops that tidy a store. A [Sweeper] moves runs whose
// lease has lapsed to unknown, a [Reaper] ends records whose retention is over, and a [Trimmer]
// removes entries of the history that are too old. Package
// reconcile has a third loop, which finds out what became of unknown outcomes.
//
// Keys are safe without these loops: a request that meets a lapsed or an expired record applies the
// same rules at once. The loops keep the store small, and let operators see lapsed runs that no
// client asks for again. Any number of processes may run them on one store: each change is a
// compare-and-set, so that it is made once.
//
// Nothing starts by itself. A [Background] runs all the loops of a process, those of other packages
// included, until the context ends:
//
//	go maintenance.Background{Engine: e}.Run(ctx)
//
// A [Runner] runs a loop whose settings may change while it runs.
package maintenance
