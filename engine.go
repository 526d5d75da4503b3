package stet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stet-dev/stet/internal/foreign"
)

// Engine decides what each request may do, and keeps the records that say so. It is safe for
// concurrent use, and any number of processes may have an engine each on the same store.
//
// The engine starts goroutines only to finish what it has promised: to write a result, or to remove
// a reservation that it gave up. [Engine.Drain] waits for them.
type Engine struct {
	store  Store
	cfg    Config
	hub    hub
	chores chores

	tags      *tags
	recipe    *Fingerprinter // the default
	recipes   recipes        // those found in records
	claims    sync.Pool      // of *claimState
	reading   reading        // of large bodies
	inFlight  inFlight       // the claims that are held in this process
	inherited inheritance
	unstored  *unstored // what this process knows and the store does not
	own       own       // records of Stet's own
	neglect   neglect
	foreign   *foreign.Calls // of code that is not Stet's
	bound     bool           // to a transaction: see BeginIn
}

// New returns an Engine on the store s. The error names the setting that cannot be used.
func New(s Store, c Config) (*Engine, error) {
	if s == nil {
		return nil, errors.New("stet: New needs a Store, such as memstore.New")
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	e := &Engine{store: s, cfg: c.withDefaults(), tags: newTags(c.Pepper), recipe: Recipe{}.compile()}
	e.neglect.began = time.Now()
	e.neglect.next.Store(int64(lookEvery))
	e.hub.limit = e.cfg.MaxWaiters
	e.unstored = &unstored{limit: e.cfg.MaxUnstored}
	e.foreign = &foreign.Calls{Tell: e.tellHanging}
	return e, nil
}

// Store returns the store that the engine was made with.
func (e *Engine) Store() Store { return e.store }

// Policy returns the engine's policy with its defaults filled in.
func (e *Engine) Policy() Policy { return e.cfg.Policy }

// Request asks for a decision. ID is required; the zero value of every other field is usable.
type Request struct {
	ID ID
	// Subject is what the request asks for. Without HTTP a Body alone is enough. If there is a
	// record, the request is compared with it by the recipe that the record was made with, so that
	// a changed configuration never turns an honest retry into a mismatch (I9).
	Subject Subject
	// Recipe is the recipe for a new record. nil means the default [Recipe].
	Recipe *Fingerprinter
	// Operation names the kind of work that the key is for, where several kinds share a scope. It
	// is stored with a new record. A request that names another one is a Mismatch, even if it asks
	// for the same; one that names none is not compared, and neither is a record without one. It
	// has at most [MaxOperation] bytes, and must not change between releases.
	Operation string
	// Policy is the policy for a new record. nil means the engine's.
	Policy *Policy
	// LookupOnly answers from what is stored, and writes nothing: see [Absent].
	LookupOnly bool
	// Wait is how long to wait for a run elsewhere to end before the verdict is InProgress. 0 means
	// not at all. Do not wait within a transaction.
	Wait time.Duration

	// Admit, if it is non-nil, decides whether a new key may be made. It is called when the key has
	// proved to be new (there is no record, or the record's life is over), right before the write
	// that makes it. A retry is never asked about. ctx ends with the time that the store has for
	// the decision.
	//
	// If Admit returns an error, nothing is written and Begin returns that error as it is.
	// Otherwise done is called once, before Begin returns: made is false if the write had no
	// effect, because another request was faster or the store refused it. In a transaction made
	// says nothing about the commit.
	//
	// A request with Admit looks before it writes, which costs one more call of the store for a new
	// key.
	Admit func(ctx context.Context) (done func(made bool), err error)

	// LeaveBody leaves a stored body that takes more than [SmallBody] where it is, so that the
	// caller can ask for room before it is read: see [Engine.ReadBody], without which a Replay has
	// no Response then. What a run goes on with is read all the same. False means that bodies of
	// any size are read.
	LeaveBody bool

	// Continue, if it is non-nil, reports whether this program can go on with a record that is at a
	// recovery point. It is called before such a record is taken over, with the record as it is. If
	// it reports false, nothing is written, and the verdict is InProgress: a release that can will
	// go on.
	Continue func(r *Record) bool

	// Point and Keep are stored with a new record, in the same write. Point is the recovery point
	// from which a later run starts if this one ends without a result (see [LapseResume]). Keep is
	// what that run needs, since the client is gone.
	Point string
	Keep  []byte

	Route, TraceID string
	Meta           map[string]string
}

// Decision is the answer to a [Request].
type Decision struct {
	Verdict Verdict
	Record  Record // what the verdict rests on; zero if there is none
	Claim   *Claim // with Execute
	// Mismatch, with the verdict Mismatch, names parts in which the request differs: method, path,
	// query, media-type, body, header:Name, operation. A part that is named does differ; the record
	// cannot tell every difference.
	Mismatch []string

	leave bool // its request had LeaveBody
}

// RetryAfter is how long to wait before asking again, in whole seconds, at least 1 s and at most
// limit. For a run it is as long as it has run so far, within the rest of its lease, so that a
// client waits at most about twice as long as the run takes; if its holder may have died,
// see [Engine.Await], it is the rest of the lease. For a suspended run it is when the run
// may go on; for an unknown outcome, when the next probe is due. It promises nothing about the
// answer then.
func (d *Decision) RetryAfter(limit time.Duration) time.Duration {
	h := &d.Record.Head
	left := h.DueAt.Sub(h.AsOf)
	switch {
	case h.DueAt.IsZero(), h.State == Unknown && left <= 0: // no probe is planned
		left = limit
	case h.State == Running && h.Cause != CauseSuspended && !unrenewed(h):
		left = min(left, h.running())
	}
	left = (left + time.Second - 1).Truncate(time.Second)
	return max(min(left, limit.Truncate(time.Second)), time.Second)
}

// ErrUnsettled is returned when the store did not answer in time, or not clearly. Nothing was
// executed, and nothing may be.
var ErrUnsettled = errors.New("stet: the store did not settle the request")

const (
	tries     = 8 // of one write, or of one decision, within StoreTimeout
	firstWait = time.Millisecond
)

// Begin decides what the request may do. With the verdict Execute, the caller holds the only claim
// to the key and must settle it.
//
// An error means that the request is incomplete or that the store did not answer: nothing may be
// executed then. The end of ctx interrupts the pauses between tries, and waiting, but no call of
// the store.
//
// To wait for a run elsewhere, set [Request.Wait]: if that run ends without a result, this request
// may execute. [Engine.Await] waits without keeping the request.
func (e *Engine) Begin(ctx context.Context, q Request) (d Decision, err error) {
	if q.ID.Scope == "" || q.ID.Key == "" {
		return d, errors.New("stet: Begin needs a Scope and a Key")
	}
	if err := waitBounds.Check(int64(q.Wait)); err != nil {
		return d, fmt.Errorf("stet: Request.%w", err)
	}
	b := begin{e: e, q: q, policy: e.cfg.Policy}
	if b.q.Meta, err = withOperation(q.Meta, q.Operation); err != nil {
		return d, fmt.Errorf("stet: Begin: %w", err)
	}
	b.q.Recipe = cmp.Or(q.Recipe, e.recipe)
	if q.Policy != nil {
		if err := q.Policy.check(); err != nil {
			return d, err
		}
		b.policy = q.Policy.withDefaults()
	}
	h := &b.create.head
	h.Attempt, h.Fingerprint, h.Point = 1, b.q.Recipe.Fingerprint(&b.q.Subject), b.q.Point
	b.running(h)
	if b.create.body = &nothing; b.q.Keep != nil {
		b.create.body = &Body{Request: b.q.Keep}
	}
	full := !b.q.LookupOnly && e.unstored.full()
	b.q.LookupOnly = b.q.LookupOnly || full
	if err = b.decide(ctx, &d); err == nil && full && d.Verdict == Absent {
		e.refuse()
		d, err = Decision{}, ErrUnstored
	}
	if d.leave = q.LeaveBody; b.done != nil {
		b.done(b.made(&d))
	}
	if err != nil && !b.e.bound {
		b.withdraw(ctx)
	}
	if err == nil && d.Verdict == InProgress && q.Wait > 0 {
		return e.outwait(ctx, q, d)
	}
	return d, err
}

// Get returns the record of id, or [ErrNotFound]. It changes nothing. A body that takes more memory
// than [MaxBody] of ctx is left: see [Body].Left.
func (e *Engine) Get(ctx context.Context, id ID) (Record, error) {
	call := detach(ctx, e.cfg.StoreTimeout)
	defer call.release()
	most := MaxBody(ctx)
	if most <= SmallBody {
		call.most = most
		return e.look(call, id)
	}
	left := upTo(most)
	got, err := e.getWithin(call, id, &left)
	if err == errTooLarge {
		return e.look(call, id)
	}
	return got, err
}

// GetWithin is Get, and asks room before it reads a body that takes more than [SmallBody]. It
// returns what Reserve returns.
func (e *Engine) GetWithin(ctx context.Context, id ID, room Room) (Record, error) {
	call := detach(ctx, e.cfg.StoreTimeout)
	defer call.release()
	return e.getWithin(call, id, room)
}

// upTo is a [Room] of that many bytes.
type upTo int64

var errTooLarge = errors.New("it is larger than was asked for")

func (p *upTo) Reserve(bytes int64) error {
	if bytes > int64(*p) {
		return errTooLarge
	}
	return nil
}
