package stet

import (
	"time"

	"github.com/stet-dev/stet/internal/names"
)

// Event tells of something that happened. Metrics, logs and traces are made from events. Fields
// that do not apply are zero.
type Event struct {
	Kind EventKind
	ID   ID     // for a log, use Engine.Tag(ID): a Key prints as [key]
	By   string // Transition: request, holder, operator, sweeper, reaper
	Route,
	TraceID string
	From, To State         // Transition; From 0: created, To 0: deleted; Neglected: From is the record's
	Attempt  int           // Transition, Answer; DoubleEffect: of the record
	Fence    int64         // DoubleEffect: of the earlier execution
	Cause    string        // Transition, Miswired
	Op       string        // StoreCall: create, get, replace, delete, due, list, count, find, history, audit, reap, trim, erase
	Result   string        // Answer: one word per request, see package stethttp
	Mismatch []string      // Answer, where the key was used for another request: the parts that differ; not nil, but they may be unknown
	Status   int           // Answer, DoubleEffect, Unplaced
	Took     time.Duration // StoreCall, Answer, Hangs; Transition to Completed: the execution; Neglected: since it is due
	WeakKey  bool          // Answer
	// Lapse, of a Transition from Running, says why the run ended without its holder's word, if it
	// did. lease-lapsed: the lease was not renewed, since the process is dead, or cut off from its
	// store. lease-lost: the holder itself has come back after the end of its lease. not-resumed:
	// the run could go on, and no process went on with it. Each lapse is told once, by the write
	// that ends the run: that of a request, a completer, the sweeper, an operator, or the holder.
	Lapse string
	// Unprotected says of an Answer that the handler ran without a key, or without the store, and
	// that the request may have changed state.
	Unprotected bool
	Count       int   // Reaped; Trimmed, Overfull: entries
	Err         error // StoreCall, PersistFailed, ProbeFailed
}

// EventKind is what an [Event] tells of.
type EventKind uint8

const (
	Transition    EventKind = iota + 1 // a record changed its state
	StoreCall                          // the store answered, or did not
	LeaseLost                          // a claim could not be kept: its context was cancelled
	PersistFailed                      // a result could not be stored in time; it is tried again until the store takes it
	Persisted                          // ... and then it could
	Answer                             // a request was answered (front ends such as stethttp send these)
	Reaped                             // Count records were removed together, after their retention
	// Probed says that a reconciler looked after an unknown record, or was sent a provider's notice.
	// Result is scheduled; resolved; failed, which is a dead letter; or contradicted, where a notice
	// says otherwise than the record, and people have to find out which is wrong.
	Probed
	ProbeFailed // its outcome could not be found out, or the record forbids what was found: Err; it stays unknown
	// DoubleEffect is the loudest event: an execution (Fence) had its effect that was thought not
	// to have happened, and the key was executed again. Status is its answer's; To is the record's
	// state.
	DoubleEffect
	// Unplaced is a result that no record takes any more, because people or evidence have decided
	// on it, or because the process ends while the store is away. Err says why.
	Unplaced
	// Overfull says that new executions are refused, because the store has not taken too much of
	// what happened here: see [Config].MaxUnstored. It is told once until there is room again.
	Overfull
	// Hangs is a call of code that is not Stet's, such as a resolver, that did not return in its
	// time: Op says what was called, ID is the record it is about, Took how long it runs so far.
	// Result is left: the caller went on without it; or returned, of a call that was left before.
	Hangs
	Miswired // a front end such as stethttp is wired up wrongly: Cause says how, see there
	Trimmed  // Count entries of the history were removed together, because of their age
	// Neglected says that no process seems to run the loops of package maintenance on this store: a
	// run (From is Running) was not swept, or a result was not reaped, for Took since it is due. An
	// engine that is asked by requests looks every 10 minutes: see [Operator.Neglected].
	Neglected
)

var eventNames = [...]string{"", "transition", "store-call", "lease-lost", "persist-failed", "persisted", "answer", "reaped", "probed",
	"probe-failed", "double-effect", "unplaced", "overfull", "hangs", "miswired", "trimmed", "neglected"}

// String returns the kind's name, such as lease-lost.
func (k EventKind) String() string { return names.Of("EventKind", eventNames[:], k) }
