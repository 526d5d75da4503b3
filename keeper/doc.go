// Package keeper runs the work that no request waits for: a [Sweeper] turns runs whose lease lapsed into unknown ones, a
// [Reaper] ends what its retention is over for, and a [Reconciler] finds out what became of what is unknown. Any number of
// processes may run them on one store.
//
// The first two are conveniences for operators, not what makes keys safe: a request that meets a lapsed or expired record rules
// on it at once, by the same rules. Unknown outcomes are ended by nothing but evidence: a Reconciler asks for it, and
// [Webhook] takes it from a provider. All are run by their owner:
//
//	go keeper.Sweeper{Engine: e}.Run(ctx)
//	go keeper.Reaper{Engine: e}.Run(ctx)
//	go keeper.Reconciler{Engine: e, Resolver: keeper.Probe{URL: "http://127.0.0.1:3000/payments?key={key}"}}.Run(ctx)
package keeper
