// Package bulk changes many records at once: all that match a filter are released, deleted or kept
// longer, by a job that is stored and survives the process that runs it.
//
//	jobs := bulk.New(engine)
//	go jobs.Run(ctx)
//	...
//	count, err := jobs.Count(ctx, bulk.Release, query) // look first
//	job, err := jobs.Start(ctx, bulk.Order{Action: bulk.Release, Query: query, Expect: count.Matching, Note: note})
//
// # What a job promises
//
// It changes the records that matched when it was started, and no others: what begins to match
// later is left alone, and so is what somebody else has changed meanwhile. Where another number of
// records matches than the caller has seen, nothing is changed: [Mismatch]. Each change is made as
// if it had been made alone, by the same rules, and is an entry of the history with the job's who
// and why, and the job's id as its notice. A record that cannot be changed is counted as failed,
// named, and passed over.
//
// # How it survives
//
// A job is itself a record, in [stet.OwnScope]: its lease says who works on it, and its recovery
// points say how far it has come. Before a page of records is changed, the page is written down.
// Whoever takes a job over asks the history about each record of the last page whether the job has
// changed it already, so that none is changed twice, and each is counted once. Any number of
// processes may run [Jobs.Run] on one store; a job is worked on by one of them. When that one dies,
// another goes on as soon as the lease of the engine's policy has ended.
package bulk
