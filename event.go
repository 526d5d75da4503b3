package stet

import "time"

// Event tells of something that happened. Metrics, logs and traces are made from events. Fields
// that do not apply are zero.
type Event struct {
	Kind EventKind
	ID   ID     // for a log, use Engine.Tag(ID): a Key prints as [key]
	By   string // Transition: request, holder, operator, sweeper, reaper
	Route,
	TraceID string
	From, To State         // Transition; From 0: created, To 0: deleted
	Attempt  int           // Transition, Answer
	Cause    string        // Transition, Miswired
	Op       string        // StoreCall: create, get, replace, delete, due, list, count, find, history, audit, reap
	Result   string        // Answer: one word per request, see package stethttp
	Mismatch []string      // Answer, where the key was used for another request: the parts that differ; not nil, but they may be unknown
	Status   int           // Answer
	Took     time.Duration // StoreCall, Answer; Transition to Completed: the execution
	WeakKey  bool          // Answer
	// Unprotected says of an Answer that the handler ran without a key, or without the store, and
	// that the request may have changed state.
	Unprotected bool
	Count       int   // Reaped
	Err         error // StoreCall, PersistFailed, ProbeFailed
}

// EventKind is what an [Event] tells of.
type EventKind uint8

const (
	Transition    EventKind = iota + 1 // a record changed its state
	StoreCall                          // the store answered, or did not
	LeaseLost                          // a claim could not be kept: its context was cancelled
	PersistFailed                      // a result could not be stored in time; it is tried again until the lease ends
	Persisted                          // ... and then it could
	Answer                             // a request was answered (front ends such as stethttp send these)
	Reaped                             // Count records were removed together, after their retention
	Probed                             // a reconciler looked after an unknown record: Result is scheduled, resolved or failed
	ProbeFailed                        // its outcome could not be found out, or the record forbids what was found: Err; it stays unknown
	Miswired                           // a front end such as stethttp is wired up wrongly: Cause says how, see there
)
