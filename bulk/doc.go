// Package bulk changes many records at once: it does what an operator does to one record (see
// [Action]) to all that match a query, by a job that is stored and so survives the process that
// runs it.
//
//	jobs := bulk.New(engine)
//	jobs.AskWith(reconciler) // for jobs that probe
//	go jobs.Run(ctx)
//	...
//	count, err := jobs.Count(ctx, bulk.Release, query) // look first
//	order := bulk.Order{Action: bulk.Release, Query: query, Expect: count.Matching, Note: note}
//	job, err := jobs.Start(ctx, order)
//
// # What a job promises
//
// A job changes the records that matched when it was started, and no others. It leaves alone what
// begins to match later, and what has been changed by others in the meantime. If another number of
// records matches than the caller has counted, nothing is changed, and the error is a [Mismatch].
// Each record is changed by the rules for a single one, and each change is an entry of the history,
// with the job's who and why and with its id as the notice. A record that cannot be changed is
// counted as failed, named, and skipped. A job can be stopped, keeps its place, and can be resumed.
//
// # How it survives
//
// A job says in which format it is written. One that a newer version has written, with members or
// actions that this one does not know, is left alone ([Newer]).
//
// A job is itself a record, in [stet.OwnScope]: its lease says which process works on it, and its
// recovery points say how far it has come. Before a page of records is changed, the page is stored.
// A process that takes a job over asks the history whether the job has changed the records of the
// last page already, so that none is changed twice and each is counted once. Any number of
// processes may run [Jobs.Run] on one store; one of them works on a job. If it dies, another goes
// on as soon as the lease of the engine's policy has ended.
package bulk
