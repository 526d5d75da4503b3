// Package keeper runs the work that no request waits for: a [Sweeper] turns runs whose lease lapsed into unknown ones, a
// [Reaper] ends what its retention is over for. Any number of processes may run them on one store.
//
// Both are conveniences for operators, not what makes keys safe: a request that meets a lapsed or expired record rules on it
// at once, by the same rules. They are run by their owner:
//
//	go keeper.Sweeper{Engine: e}.Run(ctx)
//	go keeper.Reaper{Engine: e}.Run(ctx)
package keeper
