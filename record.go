package stet

import (
	"fmt"
	"slices"
	"time"

	"github.com/stet-dev/stet/internal/names"
)

// State is the stage of its life that a record is in.
type State uint8

const (
	Running   State = iota + 1 // the claim is held; DueAt is the end of the lease
	Completed                  // the result stands and is replayed; DueAt is the end of its retention
	Retryable                  // proven that nothing happened: one retry may run
	Unknown                    // it may have happened: only evidence ends this; DueAt is the next probe
	Expired                    // retention is over and the key stays refused; DueAt is the end of that
)

var stateNames = [...]string{Running: "running", Completed: "completed", Retryable: "retryable", Unknown: "unknown", Expired: "expired"}

func (s State) String() string { return names.Of("State", stateNames[:], s) }

// ParseState is the inverse of [State.String].
func ParseState(s string) (State, error) {
	if i := slices.Index(stateNames[:], s); i > 0 {
		return State(i), nil
	}
	return 0, fmt.Errorf("stet: %q is no state: running, completed, retryable, unknown or expired", s)
}

// Version identifies one write. The writer draws it at random before each write. It is the token of
// compare-and-set, and it proves whose write is stored: after a lost reply the same write is sent
// again, and a refusal that carries the writer's own Version means that the write has landed. It
// fits a signed 64-bit column, is never 0, and is never used twice.
type Version uint64

// Field is one header or trailer line of a response. Lines keep their order and are never merged.
type Field struct{ Name, Value string }

// Response is what a client was, or will be, told. It is read-only once it has been handed
// over, also for callers that read it from a store.
type Response struct {
	Status  int
	Header  []Field
	Trailer []Field
	Body    []byte
	// Unframed says that nothing but the end of a connection has told where Body ends (RFC 9112
	// section 6.3): it may have been cut off. It is sent without a Content-Length, which would say
	// that it is whole.
	Unframed bool
}

// Kept says how much of a response is stored. A request whose response was too large to keep is
// still never executed again.
type Kept uint8

const (
	KeptWhole  Kept = iota // status, headers and body
	KeptHeader             // status and headers; replays have no body
	KeptStatus             // the status alone: a tombstone, a retry learns that it is done
)

// LapseRule says what the end of a lease means for a record. It is stored with the record, so that
// processes with different policies can share a store.
type LapseRule uint8

const (
	// LapseUnknown makes the outcome unknown until there is evidence. It is the default: a lapsed
	// lease proves nothing.
	LapseUnknown LapseRule = iota
	// LapseResume runs the request again from its recovery point. Without one it is LapseUnknown.
	LapseResume
	// LapseReexecute runs the request again from the start. The effect may then happen twice,
	// unless the called system removes duplicates itself (by the key, or by [Head.Fence]).
	LapseReexecute
	// LapseAtomic is for runs that do everything in one transaction with the write that settles
	// them: see stethttp.Atomic and [Claim.In]. A lapsed lease then proves that nothing happened:
	// the write that takes the record over waits for such a transaction, fails if it was committed,
	// and otherwise keeps it from being committed. A retry may run.
	LapseAtomic
)

var lapseWords = [...]string{LapseUnknown: "unknown", LapseResume: "resume", LapseReexecute: "reexecute", LapseAtomic: "atomic"}

// String returns the word of the configuration file; [LapseAtomic] is "atomic", which the file does
// not take.
func (r LapseRule) String() string { return names.Of("LapseRule", lapseWords[:], r) }

// MarshalText returns the word of [LapseRule.String]. The error says that there is no such lapse
// rule.
func (r LapseRule) MarshalText() ([]byte, error) { return names.Text("lapse rule", lapseWords[:], r) }

// UnmarshalText accepts the words of [LapseRule.String]: unknown, resume, reexecute and atomic. The
// error lists them.
func (r *LapseRule) UnmarshalText(text []byte) error {
	return names.Parse("lapse rule", lapseWords[:], text, r)
}

// Valid reports whether r is a rule that this version knows.
func (r LapseRule) Valid() bool { return r <= LapseAtomic }

// Rules are the part of a policy that outlives the request: what readers and background loops need
// to know about a record.
type Rules struct {
	Retain       time.Duration // how long a result is replayed
	KeepExpired  time.Duration // >0: for so long after retention the key is refused instead of free
	FromCreation bool          // retention counts from CreatedAt instead of CompletedAt, and lasts 15 minutes from then at least
	OnLapse      LapseRule
}

// leastRetention is for how long a result is kept after it became known, however old its key is by
// then: its client has to be able to ask for it. A shorter Retain is kept to.
const leastRetention = 15 * time.Minute

// retention is for how long a result is kept from now on that becomes known when its record has
// this age. All who store one count it here.
func (r *Rules) retention(age time.Duration) time.Duration {
	if !r.FromCreation {
		return r.Retain
	}
	return max(r.Retain-age, min(r.Retain, leastRetention))
}

// Note says who changed a record other than by running it, why, and on what evidence. It travels in
// the same write as the change, and stays in the history: see [Historian].
type Note struct {
	Who, Why, Evidence string
	// Notice is the id of the message that asked for the change, such as a webhook-id. It tells a
	// message that comes again: see [Operator.Resolve].
	Notice string
	// Action is what was done, in a word, such as "reveal". If it is "", the states say what was
	// done: see [Change.Action].
	Action string
}

// Head is the small part of a record. Every write carries all of it.
type Head struct {
	ID
	// Tag is the record's id in logs, lists and tools: "k_" and 16 hex digits, which tell nothing
	// of the key. The engine gives it to every write (see [Engine.Tag]); stores keep it, and find
	// the record by it (see [Query]). "" if it was given none; a store need not keep anything
	// else.
	Tag         string
	Version     Version
	State       State
	Fingerprint Fingerprint
	Attempt     int // executions in this life, from 1
	Point       string
	Cause       string // why it is Retryable or Unknown, or Running without a holder: a word such as "panic"; no text of requests
	Holder      string // who runs it, or ran it last

	Route, Method, Path, TraceID string
	// Meta is the caller's own, but for a name that begins with a space. It is read-only once it
	// was handed over.
	Meta map[string]string

	// What systems further down know the effect by: the key they were sent, where it is not the
	// record's own, and the id they answered with. [Finder] finds records by either.
	DownstreamKey, DownstreamID string

	Status     int   // of the response
	Size       int64 // of the response's body, also when it was not kept
	Kept       Kept
	Published  bool // bytes left before the result was stored: it may get no other answer
	Reconciled bool // the result was found by reconciliation
	Escalated  bool // the probes are used up: a dead letter
	Probes     int
	Rules      Rules
	// Took is how long the execution took. For an Unknown record it is the time from CreatedAt
	// until its handler was last at work, which may lie ahead: see [Head.Attended].
	Took time.Duration
	Note *Note // of the last change, if it had one; see [Historian]

	// DueIn goes into a store: the time from the store's now, or [Never]. DueAt, the instant, comes
	// out.
	DueIn time.Duration
	// The store's clock, UTC, whole microseconds. CreatedAt is when the life began: Create stamps
	// it, whatever it is given, and so does a Replace in which it is zero; any other is kept.
	// CompletedAt is stamped by the write that makes the record Completed, kept by later ones, and
	// zero before, and again in a new life. AsOf is when the record was read: compare it with
	// DueAt, never with a local clock.
	DueAt, CreatedAt, UpdatedAt, CompletedAt, AsOf time.Time
}

// Never as DueIn: nothing falls due.
const Never time.Duration = -1

// Over reports whether DueAt had passed, by the store's clock, when the record was read.
func (h *Head) Over() bool { return !h.DueAt.IsZero() && !h.AsOf.Before(h.DueAt) }

// InDoubt reports whether it was open what became of the record when it was read: it is Unknown, or
// the lease of its run was over.
func (h *Head) InDoubt() bool { return h.State == Unknown || h.State == Running && h.Over() }

// dueStill is the DueIn of a write that leaves DueAt as it was.
func (h *Head) dueStill() time.Duration {
	if h.DueAt.IsZero() {
		return Never
	}
	return max(0, h.DueAt.Sub(h.AsOf))
}

// Ended is when the attempt of an Unknown record ended, as far as is known, by the store's clock.
// It may lie ahead: see [Head.Attended]. A run that ended without a result counts until the end of
// its lease.
func (h *Head) Ended() time.Time {
	if h.State == Running {
		return h.DueAt
	}
	return h.CreatedAt.Add(h.Took)
}

// Idle is for how long no handler had worked on an Unknown record when it was read.
func (h *Head) Idle() time.Duration { return max(0, h.AsOf.Sub(h.Ended())) }

// Attended reports whether the holder of an Unknown record has said that its handler has not
// returned, and will say so again: the handler's effect may still come.
func (h *Head) Attended() bool { return h.State == Unknown && h.AsOf.Before(h.CreatedAt.Add(h.Took)) }

// running is how long the run had taken when the record was read. The start of a later attempt is
// not stored: for that it is the time since the holder's last write, which is the same for short
// runs, and never too long.
func (h *Head) running() time.Duration {
	if h.Attempt > 1 {
		return h.AsOf.Sub(h.UpdatedAt)
	}
	return h.AsOf.Sub(h.CreatedAt)
}

// Fence is the fencing token. It grows with every execution of the key, also across deletion and a
// new life, so that a downstream system can refuse a holder that was overtaken.
func (h *Head) Fence() int64 { return h.CreatedAt.UnixMicro() + int64(h.Attempt) }

// Failed reports whether the stored result is a failure (5xx). Such results are replayed like
// others.
func (h *Head) Failed() bool { return h.State == Completed && h.Status >= 500 }

// Body is the large part of a record: the response, and what a flow needs to go on.
type Body struct {
	Response *Response
	Request  []byte
	Progress []byte
	// Left, above 0, says that there is a body, and that it was not read, because it takes about
	// that many bytes of memory and the context had room for less: see [WithMaxBody]. All else is
	// zero then. It comes out of a store, and never goes into one.
	Left int64
}

// Record is all that is known about a key.
type Record struct {
	Head
	Body
}
