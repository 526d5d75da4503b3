package stet

import (
	"context"
	"errors"
	"fmt"
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
// store did not answer within StoreTimeout. Settle then goes on trying in the background until the
// lease is over: the key stays reserved meanwhile, and becomes unknown afterwards (W5).
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
	h := c.h
	b := c.outcome(&o, &h, now, stated, cause, overdue)
	done := settle
	if h.State == Unknown {
		done = doubt
	}
	switch {
	case !c.phase.allows(done):
		return fmt.Errorf("stet: Settle: %w", errClosed)
	case c.phase == joined:
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
	err := c.put(ctx, &h, b, now, c.e.cfg.StoreTimeout)
	if err == nil {
		c.phase = c.phase.after(done)
		c.settled = c.phase == ended
		c.e.moved(&c.h, from, "holder")
	} else {
		c.phase = c.phase.after(lose)
		c.keep(stated, cause)
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

// keep restores a statement that could not be stored, unless the handler has made another
// meanwhile.
func (c *Claim) keep(stated State, cause string) {
	if c.stated == 0 {
		c.stated, c.cause = stated, cause
	}
}

// outcome makes h the head of the write that settles the claim, and returns its body.
func (c *Claim) outcome(o *Outcome, h *Head, now time.Time, stated State, cause string, overdue bool) *Body {
	h.Took, h.Status, h.Size, h.Kept = now.Sub(c.began), o.Response.Status, o.Size, o.Kept
	if h.Size == 0 {
		h.Size = int64(len(o.Response.Body))
	}
	h.State, h.Cause = stated, cause
	if h.State == Retryable && h.Published { // an answer has left: no other may follow it
		h.State = Unknown
	}
	switch h.State {
	case Retryable:
		h.DueIn = h.Rules.Retain
		return nil
	case Unknown:
		h.DueIn = 0 // a probe may ask at once
		h.Took = c.worked()
		if overdue {
			h.Took += c.policy.Lease
		}
		return nil
	}
	h.State, h.Cause, h.DueIn = Completed, "", h.Rules.Retain
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
	c.e.chores.start(func() {
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
