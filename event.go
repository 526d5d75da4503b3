package stet

import "time"

// Event is the one thing metrics, logs and traces are fed from. Fields that do not apply are zero.
type Event struct {
	Kind EventKind
	ID   ID     // for a log, use Engine.Tag(ID): a Key prints as [key]
	By   string // Transition: request, holder, operator, sweeper, reaper
	Route,
	TraceID string
	From, To State         // Transition; From 0: created, To 0: deleted
	Attempt  int           // Transition, Answer
	Cause    string        // Transition
	Op       string        // StoreCall: create, get, replace, delete, due, list, count, find, history, reap
	Result   string        // Answer: one word per request, see package stethttp; Misuse: what is wrong, see MisuseKey
	Mismatch []string      // Misuse of a key: the parts that differ, see Fingerprint.Differs; they may be unknown
	Status   int           // Answer
	Took     time.Duration // StoreCall, Answer; Transition to Completed: the execution
	WeakKey  bool          // Answer
	Count    int           // Reaped
	Err      error         // StoreCall, PersistFailed, ProbeFailed
}

// EventKind is what an [Event] tells of.
type EventKind uint8

const (
	Transition    EventKind = iota + 1 // a record changed its state
	StoreCall                          // the store answered, or did not
	LeaseLost                          // a claim could not be kept: its context was cancelled
	PersistFailed                      // a result could not be stored in time; it is tried again until the lease ends
	Persisted                          // ... and then it could
	Answer                             // a request was answered (faces such as stethttp send these)
	Reaped                             // Count records were removed together, after their retention
	Probed                             // a reconciler looked after an unknown record: Result is scheduled, resolved or failed
	ProbeFailed                        // nobody could tell what became of it, or the record forbids what was found: Err; it stays unknown
	Misuse                             // somebody's code or set-up is wrong, as Result says
)

// The words of [Misuse].
const (
	MisuseKey     = "key-reused"   // a client sent a key with another request
	MisuseGuard   = "second-guard" // a request met the record that was made for it: it passes two guards, or one of them twice
	MisuseOutcome = "bad-outcome"  // a handler stated its outcome in words that do not exist; it counts as unknown
	MisuseRender  = "bad-render"   // the function that renders the layer's own answers panicked, or wrote nothing
)
