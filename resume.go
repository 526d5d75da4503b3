package stet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

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
		lapsedRun := h.State == Running && h.Over()
		if h.State != Unknown && !lapsedRun {
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
