package stet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
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

	tags     *tags
	recipe   *Fingerprinter // the default
	recipes  recipes        // those found in records
	claims   sync.Pool      // of *claimState
	inFlight inFlight       // the claims that are held in this process
	own      own            // records of Stet's own
	bound    bool           // to a transaction: see BeginIn
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
	e.hub.limit = e.cfg.MaxWaiters
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
	// query, media-type, body, header:Name. A part that is named does differ; the record cannot
	// tell every difference.
	Mismatch []string
}

// RetryAfter is how long to wait before asking again, in whole seconds, at least 1 s and at most
// limit. For a run it is as long as it has run so far, within the rest of its lease, so that a
// client waits at most about twice as long as the run takes. For a suspended run it is when the run
// may go on; for an unknown outcome, when the next probe is due. It promises nothing about the
// answer then.
func (d *Decision) RetryAfter(limit time.Duration) time.Duration {
	h := &d.Record.Head
	left := h.DueAt.Sub(h.AsOf)
	switch {
	case h.DueAt.IsZero(), h.State == Unknown && left <= 0: // no probe is planned
		left = limit
	case h.State == Running && h.Cause != CauseSuspended:
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
	if _, own := q.Meta[attentionName]; own {
		return d, fmt.Errorf("stet: Begin: the name %q in Meta is Stet's own: use another", attentionName)
	}
	b := begin{e: e, q: q, policy: e.cfg.Policy}
	b.q.Recipe = cmp.Or(q.Recipe, e.recipe)
	if q.Policy != nil {
		if err := q.Policy.Validate(); err != nil {
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
	err = b.decide(ctx, &d)
	if b.done != nil {
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

// begin is one call of Begin on its way to a decision.
type begin struct {
	e      *Engine
	q      Request
	policy Policy
	create intent  // the record, where the key is free
	taking *taking // the record that is there

	done    func(made bool) // of [Request.Admit], once it was asked
	refusal error           // what it said
}

var nothing Body // of records that keep nothing; read-only

// taking is the write that makes a record which is there this request's.
type taking struct {
	intent
	have    Record // what it replaces
	restart bool   // in a new life: what was there had ended
}

// admit calls [Request.Admit], once.
func (b *begin) admit(ctx context.Context) error {
	if b.q.Admit != nil && b.done == nil {
		b.done, b.refusal = b.q.Admit(ctx)
	}
	return b.refusal
}

// made reports whether the key that was admitted was made, or may have been.
func (b *begin) made(d *Decision) bool {
	t := b.taking
	return b.create.lost || t != nil && t.restart && t.lost || d.Verdict == Execute && d.Record.Attempt == 1
}

// withdraw takes back the writes that were sent and not answered.
func (b *begin) withdraw(ctx context.Context) {
	e := b.e
	if w := b.create; w.lost {
		e.withdraw(ctx, b.policy.Lease, w, tombstone(&w.head), &nothing)
	}
	if t := b.taking; t != nil && t.lost {
		instead, body := t.back()
		e.withdraw(ctx, b.policy.Lease, t.intent, instead, body)
	}
}

// back is what has to stand in the record's place if the request does not use what it took: the
// record as it was, due when it was, or a tombstone.
func (t *taking) back() (Head, *Body) {
	if t.restart {
		return tombstone(&t.head), &nothing
	}
	h := t.have.Head
	h.DueIn, h.Note = h.dueStill(), nil // its note is in the history, once
	return h, nil
}

// running fills in what the writes of all runs of this request have in common.
func (b *begin) running(h *Head) {
	h.ID, h.Version, h.State, h.Holder = b.q.ID, newVersion(), Running, b.e.cfg.Holder
	h.Route, h.Method, h.Path = b.q.Route, b.q.Subject.Method, b.q.Subject.Path
	h.TraceID, h.Meta = b.q.TraceID, b.q.Meta
	h.Rules, h.DueIn, h.Note = b.policy.Rules, b.policy.Lease, nil
}

func newVersion() Version { return Version(rand.Uint64()>>1 | 1) }

// decide tries until the store has given a clear answer: at most [tries] times, within
// StoreTimeout. With an error, d stays zero.
func (b *begin) decide(ctx context.Context, d *Decision) (err error) {
	call := detach(ctx, b.e.cfg.StoreTimeout)
	defer call.release()
	pause := firstWait
	for try := 1; ; try++ {
		if err = b.attempt(call, d); err == nil {
			return nil
		}
		if *d = (Decision{}); b.refusal != nil {
			return b.refusal
		}
		final := errors.Is(err, ErrFull) || errors.Is(err, ErrCorrupt) || errors.Is(err, errTooLate)
		if final || try == tries || b.e.bound || !sleep(ctx, &pause, call.deadline()) {
			break
		}
	}
	return fmt.Errorf("%w: %w", ErrUnsettled, err)
}

// attempt is one try: reserve, or rule on what is there. What follows up to [begin.take] fills d,
// in which the record is read: a record is large, and is not copied from call to call.
func (b *begin) attempt(call *detached, d *Decision) (err error) {
	if b.q.LookupOnly || b.q.Admit != nil && b.done == nil {
		switch d.Record, err = b.e.get(call, b.q.ID); {
		case err == nil:
			return b.meet(call, d)
		case !errors.Is(err, ErrNotFound):
			return err
		case b.q.LookupOnly:
			d.Verdict = Absent
			return nil
		}
		if err := b.admit(call); err != nil {
			return err
		}
	}
	switch err = b.e.send(call, &b.create, &d.Record); {
	case err == nil:
		return b.grant(d, &b.create, 0)
	case err == ErrExists, errors.Is(err, ErrExists):
		return b.meet(call, d)
	}
	return err
}

// meet acts on the record that is already there.
func (b *begin) meet(call *detached, d *Decision) error {
	have := d.Record.Version
	if b.taking != nil && (have == b.taking.prev || have == b.taking.head.Version) {
		// The same again: it did not land, or not yet; or an answer was lost. Whether that was a
		// yes only the same write learns: a Create that meets it is another, and does not ask
		// whether it was confirmed (B01).
		return b.take(call, d)
	}
	return b.rule(call, d)
}

// errTooLate: the reservation was stored, but too little of its lease is left to run on.
var errTooLate = errors.New("reserving took as long as the lease lasts")

// grant adds the claim to the record, which the write w made this request's.
func (b *begin) grant(d *Decision, w *intent, from State) error {
	now, have := time.Now(), &d.Record
	if now.Sub(w.began) >= b.policy.usable() { // nothing may run on it: I13
		w.lost = true
		return errTooLate
	}
	b.e.moved(&have.Head, from, "request")
	c := newClaim(b.e, have, &b.policy, w.began, now)
	if c.from = from; b.e.bound {
		redo := intent{prev: w.prev, head: w.head, body: w.body}
		c.joined = &joinedTx{store: b.e.store, redo: redo, body: have.Body, wrote: true}
	}
	d.Verdict, d.Claim = Execute, c
	return nil
}

// errAgain: the record changed between reading and writing.
var errAgain = errors.New("the record kept changing")

// rule judges the record that is there and performs what the ruling asks for.
func (b *begin) rule(call *detached, d *Decision) error {
	asked, err := b.asked(&d.Record.Head)
	if err != nil {
		return err
	}
	have := &d.Record.Fingerprint
	r := judge(&d.Record.Head, have.equal(asked))
	d.Verdict = r.Verdict
	switch {
	case r.Verdict == Mismatch:
		d.Mismatch = have.differs(asked)
	case b.q.LookupOnly && r.Verdict == Execute:
		d.Verdict = Absent
	case r.move != stay && !b.q.LookupOnly:
		return b.perform(call, r, d)
	}
	return nil
}

// perform writes the move that the verdict rests on. Another request may be faster: errAgain.
func (b *begin) perform(call *detached, r ruling, d *Decision) error {
	if r.move == restart {
		if err := b.admit(call); err != nil {
			return err
		}
	}
	have := &d.Record
	next, body := b.move(r.move, &have.Head)
	if r.Verdict == Execute {
		w := intent{prev: have.Version, head: next, body: body}
		b.taking = &taking{intent: w, have: *have, restart: r.move == restart}
		return b.take(call, d)
	}
	got, err := b.e.replace(call, have.Version, next, body)
	switch {
	case refused(err):
		return errAgain
	case err != nil:
		return err
	}
	b.e.moved(&got, have.State, "request")
	have.Head, d.Verdict = got, r.Verdict
	return nil
}

func (b *begin) take(call *detached, d *Decision) error {
	t := b.taking
	d.Record = Record{}
	err := b.e.insist(call, &t.intent, &d.Record)
	switch {
	case refused(err):
		return errAgain
	case err != nil:
		return err
	}
	if !t.restart {
		d.Record.Body = t.have.Body
	}
	return b.grant(d, &t.intent, t.have.State)
}

// asked is the request's fingerprint by the record's own recipe.
func (b *begin) asked(have *Head) (Fingerprint, error) {
	if have.Fingerprint.Recipe == b.create.head.Fingerprint.Recipe {
		return b.create.head.Fingerprint, nil
	}
	f, err := b.e.recipes.get(have.Fingerprint.Recipe)
	if err != nil {
		return Fingerprint{}, fmt.Errorf("%w: its fingerprint: %w", ErrCorrupt, err)
	}
	return f.Fingerprint(&b.q.Subject), nil
}

func (b *begin) move(m move, have *Head) (h Head, body *Body) {
	switch m {
	case take:
		h = Head{Attempt: have.Attempt + 1, Fingerprint: have.Fingerprint, CreatedAt: have.CreatedAt, Point: have.Point,
			DownstreamKey: have.DownstreamKey, DownstreamID: have.DownstreamID}
		b.running(&h)
		return h, nil
	case restart:
		h = Head{Attempt: 1, Fingerprint: b.create.head.Fingerprint, Point: b.q.Point}
		b.running(&h)
		return h, &Body{Request: b.q.Keep}
	case lapse:
		return lapsed(have), nil
	case stay:
	}
	panic("stet: nothing to write")
}

// causeLapsed is the Cause of a record whose lease ran out.
const causeLapsed = "lease-lapsed"

func lapsed(have *Head) Head {
	h := *have
	h.Version, h.State, h.Cause, h.DueIn = newVersion(), Unknown, causeLapsed, 0
	h.Note, h.Took = nil, have.AsOf.Sub(have.CreatedAt)
	return h
}

// Get returns the record of id, or [ErrNotFound]. It changes nothing.
func (e *Engine) Get(ctx context.Context, id ID) (Record, error) {
	call := detach(ctx, e.cfg.StoreTimeout)
	defer call.release()
	return e.get(call, id)
}
