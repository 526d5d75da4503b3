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
}

// Settle stores the outcome of the run: Completed with o or, after NotExecuted, Unknown or Overdue,
// what was stated (with the status of o, but without its body). It returns nil when that is stored.
//
// [ErrFenced] means that another holder has taken over the record. Any other error means that the
// store did not answer within StoreTimeout; the end of ctx ends nothing. Settle then goes on trying
// in the background until the lease is over: the key stays reserved meanwhile, and becomes unknown
// afterwards (W5).
//
// A claim that was settled as unknown may be settled once more, by a holder that has learned the
// outcome, unless another has changed the record since. An outcome that comes too late for that is
// left with the record as evidence.
func (c *Claim) Settle(ctx context.Context, o Outcome) error {
	if err := c.turn(); err != nil {
		return fmt.Errorf("stet: Settle: %w", err)
	}
	defer c.yield()
	now, stated, cause, overdue := time.Now(), c.stated, c.cause, c.overdue
	if c.phase == doubted && stated == 0 {
		stated, cause = Unknown, c.h.Cause
	}
	h, done := c.h, settle
	switch h.State, h.Cause = stated, cause; {
	case stated == Unknown, stated == Retryable && h.Published: // an answer has left: no other may follow it
		h.State, done = Unknown, doubt
	case stated != Retryable:
		h.State, h.Cause = Completed, ""
	}
	if !c.phase.allows(done) {
		return fmt.Errorf("stet: Settle: %w", errClosed)
	}
	b := c.outcome(&o, &h, now, overdue)
	h.dropAttention()
	if c.phase == joined {
		err := c.putIn(ctx, &h, b)
		if err == nil {
			c.phase = c.phase.after(done)
		}
		return err
	}
	c.stated, c.overdue = 0, false
	back := !overdue && c.unattend()
	c.heartbeat.stop(context.Canceled)
	from := c.h.State
	err := c.write(ctx, &h, b, now)
	if err == nil {
		c.phase = c.phase.after(done)
		c.settled = c.phase == ended
		c.e.moved(&c.h, from, "holder")
	} else {
		c.phase = c.phase.after(lose)
		if c.stated == 0 { // else the handler has made another statement meanwhile
			c.stated, c.cause = stated, cause
		}
	}
	if h.State == Unknown && overdue {
		c.attend(ctx)
	}
	switch {
	case err == nil:
	case errors.Is(err, ErrFenced) && back && h.State == Unknown:
		c.witness(ctx, 0)
	case errors.Is(err, ErrFenced):
		c.outside(func() { c.testifyOnce(ctx, &h, b) })
	default:
		c.e.Observe(Event{Kind: PersistFailed, ID: h.ID, Route: h.Route, TraceID: h.TraceID, To: h.State, Err: err})
		c.persist(context.WithoutCancel(ctx), h, b)
	}
	return err
}

// write stores the outcome, also over a version of those who have only looked at the record.
func (c *Claim) write(ctx context.Context, h *Head, b *Body, now time.Time) error {
	err := c.put(ctx, h, b, now, c.e.cfg.StoreTimeout)
	if errors.Is(err, ErrFenced) && h.State != Unknown && c.onlyLookedAt(ctx) {
		err = c.put(ctx, h, b, now, c.e.cfg.StoreTimeout)
	}
	return err
}

// onlyLookedAt reports whether all that others have changed of the claim's unknown record is who
// looks at it. The holder may then still say what became of it, over the version that it takes over
// here.
func (c *Claim) onlyLookedAt(ctx context.Context) bool {
	if c.phase != doubted {
		return false
	}
	call := detach(ctx, c.e.cfg.StoreTimeout)
	defer call.release()
	var have Record
	var err error
	c.outside(func() { have, err = c.e.get(call, c.id) })
	same := err == nil && have.State == Unknown && have.Fence() == c.h.Fence() && have.Cause == c.h.Cause && have.Point == c.h.Point &&
		have.Probes == c.h.Probes && !have.Escalated && have.Late().IsZero()
	if same {
		c.h = have.Head
	}
	return same
}

// outcome makes h, which has its State, the head of the write that settles the claim, and returns
// its body. An earlier write that still goes on may use what an earlier call returned: the phase
// has to allow the write.
func (c *Claim) outcome(o *Outcome, h *Head, now time.Time, overdue bool) *Body {
	h.Took, h.Status, h.Size, h.Kept = now.Sub(c.began), o.Response.Status, o.Size, o.Kept
	if h.Size == 0 {
		h.Size = int64(len(o.Response.Body))
	}
	switch h.State {
	case Retryable:
		h.DueIn = h.Rules.Retain
		return nil
	case Unknown:
		h.DueIn = 0 // a probe may ask at once
		h.Took = c.worked()
		if overdue {
			h.keepSince(h.CreatedAt.Add(h.Took))
			h.Took += c.policy.Lease
		}
		return nil
	}
	h.DueIn = h.Rules.Retain
	if h.Rules.FromCreation {
		h.DueIn = max(0, h.DueIn-c.worked())
	}
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

// persist goes on trying to store an outcome until the lease is over by the local clock.
func (c *Claim) persist(ctx context.Context, h Head, b *Body) {
	end := c.renewed.Add(c.policy.Lease)
	c.e.Go(0, func() {
		pause := 100 * firstWait
		for sleep(ctx, &pause, end) {
			pause = min(pause, c.e.cfg.StoreTimeout)
			if err := c.persistOnce(ctx, h, b); err == nil {
				return
			} else if errors.Is(err, ErrFenced) {
				break
			}
		}
		c.testifyLater(ctx, h, b)
	})
}

func (c *Claim) persistOnce(ctx context.Context, h Head, b *Body) error {
	if err := c.turn(); err != nil {
		return err
	}
	defer c.yield()
	from := c.h.State
	err := c.put(ctx, &h, b, time.Now(), c.e.cfg.StoreTimeout)
	if err == nil {
		c.e.Observe(Event{Kind: Persisted, ID: h.ID, Route: h.Route, TraceID: h.TraceID, To: h.State})
		c.e.moved(&c.h, from, "holder")
	}
	return err
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
	if err := c.turn(); err != nil {
		return fmt.Errorf("stet: Suspend: %w", err)
	}
	defer c.yield()
	h, b := c.stepped(&s)
	switch {
	case c.joined != nil:
		return errors.New("stet: Suspend: the claim is part of a transaction: Confirm it first")
	case !c.phase.allows(suspend):
		return fmt.Errorf("stet: Suspend: %w", errClosed)
	case !mayResume(&h):
		return fmt.Errorf("stet: Suspend: %w: it has no recovery point to resume from", ErrState)
	}
	h.DueIn, h.Cause = max(0, in), CauseSuspended
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

// Reopen ends what is unknown about one step of a run, on evidence, when the whole run has no
// answer yet: the run goes on at s, as after [Claim.Suspend], with the next request or
// [Operator.Resume], at once. s says whether that step was done or can no longer happen; an effect
// that may still come is no evidence (I14). The error is [ErrState] if the record is not unknown,
// or could not be resumed from s. version and n are as in [Operator.Resolve].
func (o *Operator) Reopen(ctx context.Context, id ID, version Version, s Step, n Note) (Head, error) {
	return o.e.change(ctx, id, version, n, "reopen", func(h *Head, b *Body) (*Body, error) {
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

// Abandoned looks at one page of lapsed runs, the longest due first, and returns those that may be
// resumed from a recovery point, with the cursor of the next page, "" after the last. limit is how
// many runs it looks at.
func (o *Operator) Abandoned(ctx context.Context, after string, limit int) (heads []Head, next string, err error) {
	heads, next, err = o.e.due(ctx, Query{States: []State{Running}, After: after, Limit: limit})
	heads = slices.DeleteFunc(heads, func(h Head) bool { return !resumable(&h) })
	return heads, next, err
}
