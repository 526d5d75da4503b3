package stet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Outcome is what Settle stores of a run that completed.
type Outcome struct {
	Response Response
	Size     int64 // of the body as sent; 0 means len(Response.Body)
	Kept     Kept  // how much of Response there is
	// Withheld says that the client is not told this outcome unless it is stored.
	Withheld bool
}

// check returns an error if o is out of bounds for what was stated.
func (o *Outcome) check(stated State) error {
	if testifies := stated != Retryable && stated != Unknown; testifies || o.Response.Status != 0 {
		if err := statusBounds.Check(int64(o.Response.Status)); err != nil {
			return err
		}
	}
	if err := keptBounds.Check(int64(o.Kept)); err != nil {
		return err
	}
	return sizeBounds.Check(o.Size)
}

// Settle stores the outcome of the run: Completed with o or, after NotExecuted, Unknown or Overdue,
// what was stated (with the status of o, but without its body). It returns nil when that is stored.
// An o that cannot be replayed, such as one whose status is not from 200 to 999, is refused with an
// error that says so, and the claim stays as it is.
//
// [ErrFenced] means that another holder has taken over the record, or that others have decided on
// it. Any other error means that the store did not answer within StoreTimeout; the end of ctx ends
// nothing. Either way the outcome is not lost. It is stored as soon as the store takes it: as the
// result if no other execution has begun, and else as evidence (W5). See [Engine.Unstored].
//
// A claim that was settled as unknown may be settled once more, by a holder that has learned the
// outcome and states it, with [Claim.Completed] or [Claim.NotExecuted]: that is the result as long
// as no other execution has begun and no decision was made on the record, and evidence otherwise.
func (c *Claim) Settle(ctx context.Context, o Outcome) error {
	if err := c.turn(); err != nil {
		return fmt.Errorf("stet: Settle: %w", err)
	}
	defer c.yield()
	s := c.statement
	if c.phase == doubted && s.state == 0 && !c.overran {
		s = statement{state: Unknown, cause: c.h.Cause}
	}
	if err := o.check(s.state); err != nil {
		return fmt.Errorf("stet: Settle: Outcome.%w", err)
	}
	c.statement, c.overran = statement{}, false
	err := c.settleAs(ctx, s, &o)
	if err != nil && c.phase == joined && c.statement.state == 0 { // it may be settled again; else what s says is kept
		c.statement = s
		c.overdue = false
	}
	return err
}

// settleAs stores what s says. The caller has the turn.
func (c *Claim) settleAs(ctx context.Context, s statement, o *Outcome) error {
	now, doubts := time.Now(), c.phase == doubted
	h, done := c.h, settle
	switch h.State, h.Cause = s.state, s.cause; {
	case s.state == Unknown, s.state == Retryable && h.Published: // an answer has left: no other may follow it
		h.State, done = Unknown, doubt
	case s.state != Retryable:
		h.State, h.Cause = Completed, ""
	}
	if !c.phase.allows(done) {
		return fmt.Errorf("stet: Settle: %w", errClosed)
	}
	b := c.outcome(o, &h, now, s)
	h.dropAttention()
	if c.phase == joined {
		err := c.putIn(ctx, &h, b)
		if err == nil {
			c.phase = c.phase.after(done)
		}
		return err
	}
	back := !s.overdue && c.unattend()
	c.heartbeat.stop(context.Canceled)
	from := c.h.origin()
	err := c.put(ctx, &h, b, now, c.e.cfg.StoreTimeout)
	if errors.Is(err, ErrRefused) && lessened(&h, &b) {
		err = c.put(ctx, &h, b, now, c.e.cfg.StoreTimeout)
	}
	if h.State == Unknown && s.overdue {
		c.attend(ctx)
	}
	if err == nil {
		c.phase = c.phase.after(done)
		c.settled = c.phase == ended
		c.e.moved(&c.h, from, "holder")
		return nil
	}
	if done == doubt { // what the holder learns later still counts
		c.phase = c.phase.after(doubt)
	} else {
		c.phase = c.phase.after(lose)
	}
	l := &learned{claim: c, head: h, body: b, doubts: doubts, due: c.renewed.Add(c.policy.Lease),
		told: !errors.Is(err, ErrFenced) && !doubts && !o.Withheld}
	return c.learn(ctx, l, back, err)
}

// learn sees to what could not be stored, because of err.
func (c *Claim) learn(ctx context.Context, l *learned, back bool, err error) error {
	if !errors.Is(err, ErrFenced) {
		c.e.Observe(Event{Kind: PersistFailed, ID: l.head.ID, Route: l.head.Route, TraceID: l.head.TraceID, To: l.head.State, Err: err})
		c.e.keep(l)
		return err
	}
	if l.head.State == Unknown {
		if back {
			c.witness(ctx, 0)
		}
		return err
	}
	var placed bool
	c.outside(func() { placed = c.e.placeNow(ctx, l) })
	switch {
	case l.taken != nil:
		c.h, err = *l.taken, nil
	case !placed:
		c.e.keep(l)
	}
	return err
}

// outcome makes h, which has its State, the head of the write that settles the claim, and returns
// its body. An earlier write that still goes on may use what an earlier call returned: the phase
// has to allow the write.
func (c *Claim) outcome(o *Outcome, h *Head, now time.Time, s statement) *Body {
	h.Took, h.Status, h.Size, h.Kept = now.Sub(c.began), o.Response.Status, o.Size, o.Kept
	if h.Size == 0 {
		h.Size = int64(len(o.Response.Body))
	}
	switch h.State {
	case Retryable:
		if h.DueIn = h.Rules.Retain; s.moved {
			h.DueIn = 0
		}
		return nil
	case Unknown:
		h.DueIn = 0 // a probe may ask at once
		h.Took = c.worked()
		if s.overdue {
			h.keepSince(h.CreatedAt.Add(h.Took))
			h.Took += c.policy.Lease
		}
		return nil
	}
	h.DueIn = h.Rules.retention(c.worked())
	r := &c.result
	r.response, r.body = o.Response, Body{Response: &r.response}
	switch o.Kept {
	case KeptWhole:
	case KeptHeader:
		r.response.Body, r.response.Trailer = nil, nil
	case KeptStatus:
		r.body.Response = nil
	}
	return &r.body
}

// worked is the time from the record's creation to now by the store's clock, as far as that is
// known. It is too short by the duration of the last write, and never too long: a holder that has
// ended must not look as if it still worked. Settling times are far longer.
func (c *Claim) worked() time.Duration {
	return c.h.UpdatedAt.Sub(c.h.CreatedAt) + time.Since(c.heard)
}

// Downstream records under which names other systems know the effect: the key that they were sent
// ("" if it is the record's own), and the id that they answered with, as soon as there is one
// (S1-39). [Finder] finds the record by either. It also renews the lease. After [Claim.Overdue] the
// names are stored with the next word that the handler still works, which is attempted at once.
func (c *Claim) Downstream(ctx context.Context, key, id string) error {
	if err := c.turn(); err != nil {
		return err
	}
	defer c.yield()
	h := c.h
	h.DownstreamKey, h.DownstreamID = key, id
	if c.phase == doubted && c.heartbeat.attending != nil {
		c.h = h
		c.witness(ctx, c.policy.Lease)
		return nil
	}
	return c.progress(ctx, &h, nil)
}

// Step is what one phase of a run leaves behind, in one write: where a later run starts, and with
// what.
type Step struct {
	Point    string
	Progress []byte
	// The names under which other systems know the next effect: see [Claim.Downstream]. Empty ones
	// leave what is stored.
	DownstreamKey, DownstreamID string
}

// Step stores a recovery point. With the rule [LapseResume] a later run starts at s.Point and finds
// s.Progress in its record. It also renews the lease.
func (c *Claim) Step(ctx context.Context, s Step) error {
	if err := c.turn(); err != nil {
		return err
	}
	defer c.yield()
	h, b := c.stepped(&s)
	return c.progress(ctx, &h, &b)
}

func (c *Claim) stepped(s *Step) (Head, Body) {
	h, b := c.h, c.body
	s.leave(&h)
	b.Progress = slices.Clone(s.Progress) // it may have to be written again
	return h, b
}

// leave puts the step's part of a head into h.
func (s *Step) leave(h *Head) {
	h.Point = s.Point
	if s.DownstreamKey != "" {
		h.DownstreamKey = s.DownstreamKey
	}
	if s.DownstreamID != "" {
		h.DownstreamID = s.DownstreamID
	}
}

// Suspend gives the claim up at a recovery point, so that a later run starts there: any request, or
// [Operator.Resume], once in has passed by the store's clock. Until then the key is in progress.
// Use it when the work cannot go on for now and giving up would lose what was done. A suspended
// record never starts anew at the end of its retention, unlike one that may be retried.
//
// The error is [ErrState] if the record could not be resumed, and otherwise as with Settle: if the
// store gave no answer, the lease ends the run.
func (c *Claim) Suspend(ctx context.Context, s Step, in time.Duration) error {
	if err := inBounds.Check(int64(in)); err != nil {
		return fmt.Errorf("stet: Suspend: %w", err)
	}
	if err := c.turn(); err != nil {
		return fmt.Errorf("stet: Suspend: %w", err)
	}
	defer c.yield()
	h, b := c.stepped(&s)
	switch {
	case c.joined != nil:
		return errors.New("stet: Suspend: the claim is part of a transaction: Confirm it first")
	case !c.phase.allows(suspend):
		if c.unattend() { // its time was over before; now its handler has returned
			c.witness(ctx, 0)
		}
		return fmt.Errorf("stet: Suspend: %w", errClosed)
	case !mayResume(&h):
		return fmt.Errorf("stet: Suspend: %w: it has no recovery point to resume from", ErrState)
	}
	h.DueIn, h.Cause = in, CauseSuspended
	err := c.put(ctx, &h, &b, time.Now(), c.e.cfg.StoreTimeout)
	c.heartbeat.stop(context.Canceled)
	c.phase = c.phase.after(suspend)
	return err
}

// CauseSuspended is the Cause of a record in progress that no process works on: see
// [Claim.Suspend].
const CauseSuspended = "suspended"

// Stored returns the large part of the record as the holder last wrote it: what a resumed run goes
// on with. It is read-only.
func (c *Claim) Stored() Body {
	defer c.mu.Unlock()
	if !c.lock() {
		return Body{}
	}
	b := c.body
	if b.Response == &c.result.response { // its memory is used again
		r := *b.Response
		b.Response = &r
	}
	return b
}

// TookOver reports whether the run before this one ended without a result: what it did since its
// last write may have happened or not. It is false for the first run, and for a run after it was
// stated or found that nothing happened.
func (c *Claim) TookOver() bool { return c.from == Running }

// Resume takes over a record whose lease has lapsed at a recovery point, as the next request would,
// but without one: a background loop goes on with what a client has abandoned. Of any number of
// processes that try, one gets the claim. [ErrState] means that there is nothing to take over, or
// no longer. The record keeps its Rules; lease and execution time are the engine's.
func (o *Operator) Resume(ctx context.Context, id ID) (Decision, error) {
	call := detach(ctx, o.e.cfg.StoreTimeout)
	defer call.release()
	have, err := o.e.get(call, id)
	if err != nil {
		return Decision{}, fmt.Errorf("stet: resume: %w", err)
	}
	if !resumable(&have.Head) {
		return Decision{}, fmt.Errorf("stet: resume: %w: it is not abandoned at a recovery point", ErrState)
	}
	b := begin{e: o.e, policy: o.e.cfg.Policy, q: Request{ID: id, Route: have.Route, TraceID: have.TraceID, Meta: have.Meta}}
	b.q.Subject.Method, b.q.Subject.Path, b.policy.Rules = have.Method, have.Path, have.Rules
	d := Decision{Record: have}
	err = b.perform(call, judge(&have.Head, true), &d)
	switch {
	case errors.Is(err, errAgain):
		return Decision{}, fmt.Errorf("stet: resume: %w: somebody else was faster", ErrState)
	case err != nil:
		b.withdraw(ctx)
		return Decision{}, fmt.Errorf("stet: resume: %w: %w", ErrUnsettled, err)
	}
	return d, nil
}

// Reopen ends what is unknown about one step of a run, on evidence about the execution that of
// names, when the whole run has no answer yet: the run goes on at s, as after [Claim.Suspend], with
// the next request or [Operator.Resume], at once. s says whether that step was done or can no
// longer happen; an effect that may still come is no evidence (I14). The error is [ErrState] if the
// record is not unknown, or could not be resumed from s, and as with [Operator.Resolve] where of
// names too little or another execution.
func (o *Operator) Reopen(ctx context.Context, id ID, of Execution, s Step, n Note) (Head, error) {
	if err := of.named(false); err != nil {
		return Head{}, fmt.Errorf("stet: reopen: %w", err)
	}
	return o.e.change(ctx, id, of.Version, n, "reopen", func(h *Head, b *Body) (*Body, error) {
		if err := of.matches(h); err != nil {
			return nil, err
		}
		if !h.InDoubt() {
			return nil, fmt.Errorf("%w: it is %s, not unknown", ErrState, h.State)
		}
		if s.leave(h); !mayResume(h) {
			return nil, fmt.Errorf("%w: it has no recovery point to resume from", ErrState)
		}
		h.State, h.Cause, h.Escalated, h.Probes, h.DueIn = Running, "", false, 0, 0
		return &Body{Request: b.Request, Progress: slices.Clone(s.Progress)}, nil
	})
}

// mayResume reports whether the record has a recovery point from which its rule lets another run go
// on.
func mayResume(h *Head) bool {
	return h.Point != "" && h.Rules.OnLapse == LapseResume && mayRunAgain(h)
}

// resumable reports whether such a record has no holder either.
func resumable(h *Head) bool { return h.State == Running && h.Over() && mayResume(h) }

// Abandoned looks at one page of the lapsed runs that q selects, the longest due first, and returns
// those that may be resumed from a recovery point, with the cursor of the next page, "" after the
// last. q.Limit is how many runs it looks at; q.States are not heeded. A store may look at every
// lapsed run for those of a Scope or Route, but returns these alone.
func (o *Operator) Abandoned(ctx context.Context, q Query) (heads []Head, next string, err error) {
	q.States = []State{Running}
	heads, next, err = o.e.due(ctx, q)
	heads = slices.DeleteFunc(heads, func(h Head) bool { return !resumable(&h) })
	return heads, next, err
}
