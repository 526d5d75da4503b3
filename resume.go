package stet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Step is what one phase of a run leaves behind, in one write: where a later run starts, and with what.
type Step struct {
	Point    string
	Progress []byte
	// What systems further down know the next effect by: see [Claim.Downstream]. Empty ones leave what is there.
	DownstreamKey, DownstreamID string
}

// Step stores a recovery point: with the rule [LapseResume] a later run starts at s.Point, and finds s.Progress in its Record.
// It also renews the lease.
func (c *Claim) Step(ctx context.Context, s Step) error {
	c.turn()
	defer c.yield()
	h, b := c.stepped(&s)
	return c.progress(ctx, h, &b)
}

func (c *Claim) stepped(s *Step) (Head, Body) {
	h, b := c.h, c.body
	s.leave(&h)
	b.Progress = slices.Clone(s.Progress) // it may have to be written again
	return h, b
}

// leave puts the step's part of a head there.
func (s *Step) leave(h *Head) {
	h.Point = s.Point
	if s.DownstreamKey != "" {
		h.DownstreamKey = s.DownstreamKey
	}
	if s.DownstreamID != "" {
		h.DownstreamID = s.DownstreamID
	}
}

// Suspend gives the claim up at a recovery point, so that a later run starts there: any request, or [Operator.Resume], once in
// has passed by the store's clock. Until then the key is in progress. It is what to do where the way to go on is closed for
// now, and giving up would forget what was done so far. Unlike a record that may be retried, one that is suspended never
// begins anew by the end of its retention. It is [ErrState] where the record could not be resumed, and otherwise as Settle is:
// where the store gave no answer, the lease ends the run.
func (c *Claim) Suspend(ctx context.Context, s Step, in time.Duration) error {
	c.turn()
	defer c.yield()
	h, b := c.stepped(&s)
	switch {
	case c.joined != nil:
		return errors.New("stet: Suspend: the claim is part of a transaction: Confirm it first")
	case !c.phase.allows(suspend):
		return fmt.Errorf("stet: Suspend: %w: the claim is settled", ErrFenced)
	case !mayResume(&h):
		return fmt.Errorf("stet: Suspend: %w: it has no recovery point to resume from", ErrState)
	}
	h.DueIn, h.Cause = max(0, in), CauseSuspended
	err := c.put(ctx, h, &b, c.e.cfg.StoreTimeout)
	c.heartbeat.stop(context.Canceled)
	c.phase = c.phase.after(suspend)
	return err
}

// CauseSuspended is the Cause of a record in progress that nobody works on: see [Claim.Suspend].
const CauseSuspended = "suspended"

// Stored returns the large part of the record as the holder last wrote it: what a run that resumes has to go on with. It is
// read-only.
func (c *Claim) Stored() Body {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.body
}

// TookOver reports whether the run before this one ended without a word, so that what it did since its last write may or may
// not have happened. It is false for the first run, and for one after it was stated or found that nothing happened.
func (c *Claim) TookOver() bool { return c.from == Running }

// Resume takes over a record whose lease has lapsed at a recovery point, as the next request would, but without one: a
// background loop goes on with what a client has abandoned. [ErrState] means that there is nothing to take over (any more);
// of any number of processes that try, one gets the claim. The record keeps its Rules; lease and execution time are the
// engine's.
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
	d, err := b.perform(call, judge(&have.Head, true), have)
	switch {
	case errors.Is(err, errAgain):
		return Decision{}, fmt.Errorf("stet: resume: %w: somebody else was faster", ErrState)
	case err != nil:
		b.withdraw(ctx)
		return Decision{}, fmt.Errorf("stet: resume: %w: %w", ErrUnsettled, err)
	}
	return d, nil
}

// Reopen ends what is unknown about one step of a run, on evidence, where the whole of it has no answer yet: the run goes on at
// s, as after [Claim.Suspend], with the next request or [Operator.Resume], at once. Whether that step was done or cannot be any more
// is for s to say; an effect that may still come is no evidence (I14). It is [ErrState] where the record is not unknown, or could
// not be resumed from s. version and n are as in [Operator.Resolve].
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

// mayResume: it has a recovery point, and its rule lets others go on from there.
func mayResume(h *Head) bool {
	return h.Point != "" && h.Rules.OnLapse == LapseResume && mayRunAgain(h)
}

// resumable: ... and nobody works on it.
func resumable(h *Head) bool { return h.State == Running && h.Over() && mayResume(h) }

// Abandoned returns, of one page of lapsed runs, those that may be resumed from a recovery point, the longest due first, and the
// cursor of the next page, "" after the last. limit is how many runs it looks at.
func (o *Operator) Abandoned(ctx context.Context, after string, limit int) (heads []Head, next string, err error) {
	heads, next, err = o.e.due(ctx, Query{States: []State{Running}, After: after, Limit: limit})
	heads = slices.DeleteFunc(heads, func(h Head) bool { return !resumable(&h) })
	return heads, next, err
}
