package stet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

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
	b.e.lookForNeglect(call.began)
	pause := firstWait
	for try := 1; ; try++ {
		if err = b.attempt(call, d); err == nil {
			return nil
		}
		if *d = (Decision{}); b.refusal != nil {
			return b.refusal
		}
		if final(err) || errors.Is(err, errTooLate) || try == tries || b.e.bound || !sleep(ctx, &pause, call.deadline()) {
			break
		}
	}
	return fmt.Errorf("%w: %w", ErrUnsettled, err)
}

// attempt is one try: reserve, or rule on what is there. What follows up to [begin.take] fills d,
// in which the record is read: a record is large, and is not copied from call to call.
func (b *begin) attempt(call *detached, d *Decision) (err error) {
	if b.q.LookupOnly || b.q.Admit != nil && b.done == nil {
		switch d.Record, err = b.e.look(call, b.q.ID); {
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
		return b.grant(d, &b.create, origin{})
	case err == ErrExists, errors.Is(err, ErrExists):
		return b.meet(call, d)
	case errors.Is(err, ErrForeign):
		return b.look(call, d, err)
	}
	return err
}

// look answers from what a foreign store has, if that takes no write: what is there was an answer
// once, and what is not there may have been.
func (b *begin) look(call *detached, d *Decision, foreign error) (err error) {
	if d.Record, err = b.e.look(call, b.q.ID); err != nil {
		return foreign
	}
	return b.rule(call, d)
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
func (b *begin) grant(d *Decision, w *intent, from origin) error {
	now, have := time.Now(), &d.Record
	if now.Sub(w.began) >= b.policy.usable() { // nothing may run on it: I13
		w.lost = true
		return errTooLate
	}
	b.e.moved(&have.Head, from, "request")
	c := newClaim(b.e, have, &b.policy, w.began, now)
	if c.from = from.state; b.e.bound {
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
	have, other := &d.Record.Fingerprint, otherOperation(d.Record.Meta, b.q.Meta)
	r := judge(&d.Record.Head, !other && have.equal(asked))
	d.Verdict = r.Verdict
	if r.move == take || !b.q.LeaveBody {
		if err := b.e.whole(call, &d.Record, nil); err != nil {
			return err
		}
	}
	switch {
	case r.Verdict == Mismatch:
		if d.Mismatch = have.differs(asked); other {
			d.Mismatch = append(d.Mismatch, partOperation)
		}
	case b.q.LookupOnly && r.Verdict == Execute:
		d.Verdict = Absent
	case r.move == take && d.Record.Point != "" && b.q.Continue != nil && !b.mayContinue(d.Record):
		*d = comeAgain(d.Record)
	case r.move != stay && !b.q.LookupOnly:
		return b.perform(call, r, d)
	}
	return nil
}

// mayContinue asks [Request.Continue] with a record of its own: each decision would be made on the
// heap otherwise.
func (b *begin) mayContinue(have Record) bool { return b.q.Continue(&have) }

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
	b.e.moved(&got, have.origin(), "request")
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
	return b.grant(d, &t.intent, t.have.origin())
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
			DownstreamKey: have.DownstreamKey}
		if h.Point != "" { // else the id names a run, and this one has reported none
			h.DownstreamID = have.DownstreamID
		}
		b.running(&h)
		h.keepOperation(have)
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
