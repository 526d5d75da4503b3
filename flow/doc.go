// Package flow runs requests that take several steps, with calls of other systems between them, so that a crash at any point
// repeats nothing that was done: recovery points in the record of the key.
//
// A [Flow] is a list of named phases over a state of the caller's type. A [Local] phase works in a database transaction, which
// also commits the recovery point and the state. A [Foreign] phase has one effect on another system, with a key that stays the
// same whenever the phase is run again. What runs after a crash starts at the recovery point: a retry of the client's, or a
// [Completer], which needs none.
//
// Which of the three ways to protect a request is the right one:
//
//   - guard (package stethttp): one effect, anywhere. After a crash the outcome is unknown until somebody finds out.
//   - atomic (stethttp.Atomic, [github.com/stet-dev/stet.Claim.In]): all effects are rows of the database that holds the records.
//     After a crash it either happened or it did not.
//   - flow: rows, and calls of other systems. After a crash it goes on.
//
// A phase says how it ended by what it returns: nil, [Decline] (a final no, which is stored and replayed), [RetryLater] (provably
// nothing happened; it goes on later) or [Maybe]. An outcome that is unknown stays so until there is
// evidence, unless the other system removes duplicates itself ([Phase.HonoursKey]) or can be asked ([Phase.Lookup]).
//
// Records need the rule [github.com/stet-dev/stet.LapseResume]. A flow adds one store write per phase; [Flow.Run], on a record
// whose reservation named no recovery point, one more at its beginning, before which a crash leaves the outcome unknown.
package flow
