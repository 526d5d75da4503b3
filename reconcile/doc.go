// Package reconcile finds out what became of executions whose outcome is unknown, and ends such
// records with evidence, never with a guess.
//
// A [Reconciler] asks: before each question it takes the record by compare-and-set, so that of any
// number of processes one asks. What it asks is a [Resolver]: a [Probe], which is a URL of the
// upstream, or a function that looks into the service's own tables. Records about which nothing can
// be found out become dead letters, which people end. A [Webhook] takes the answer from a provider
// that sends it by itself.
//
//	probe := reconcile.Probe{URL: "http://127.0.0.1:3000/payments?key={key}"}
//	go reconcile.Reconciler{Engine: e, Resolver: probe.Resolve}.Run(ctx)
//
// Package compare, below this one, lays the provider's books beside the service's own.
package reconcile
