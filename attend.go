package stet

import (
	"context"
	"time"
)

// attend begins to say of an unknown record, once every third of a lease, that its handler has not returned. The caller has the turn.
func (c *Claim) attend(ctx context.Context) {
	k := &c.keeper
	if k.attending != nil || c.h.State == Completed || c.h.State == Retryable {
		return
	}
	ctx = context.WithoutCancel(ctx)
	k.attending = time.AfterFunc(c.policy.Lease/3, func() { c.attendAgain(ctx) })
}

func (c *Claim) attendAgain(ctx context.Context) {
	c.turn()
	defer c.yield()
	if c.keeper.attending != nil && c.witness(ctx, c.policy.Lease) {
		c.keeper.attending.Reset(c.policy.Lease / 3)
	}
}

// Returned ends what [Claim.Overdue] began, for a handler that came back with nothing to say: nothing more can come of it, and
// settling time begins. It does nothing where a claim attends no record.
func (c *Claim) Returned(ctx context.Context) {
	c.turn()
	defer c.yield()
	if c.unattend() {
		c.witness(ctx, 0)
	}
}

// unattend reports whether the record was attended.
func (c *Claim) unattend() bool {
	k := &c.keeper
	if k.attending == nil {
		return false
	}
	k.attending.Stop()
	k.attending = nil
	return true
}

// witness writes that the handler works for so much longer, 0: that it has returned. A record that others have touched meanwhile, such
// as a reconciler, is still this run's while it is unknown and of this attempt. It reports false where there is nothing left to say.
func (c *Claim) witness(ctx context.Context, ahead time.Duration) bool {
	if c.phase == doubted {
		h := c.h
		h.DueIn, h.Note, h.Took = 0, nil, c.worked()+ahead
		if err := c.put(ctx, h, nil, c.e.cfg.StoreTimeout); err == nil {
			return true
		}
	}
	mine := c.h
	there := true
	c.outside(func() { there = c.e.attended(ctx, &mine, ahead) })
	return there
}

// attended writes it to the record as it is now.
func (e *Engine) attended(ctx context.Context, mine *Head, ahead time.Duration) bool {
	call := detach(ctx, e.cfg.StoreTimeout)
	defer call.release()
	for range tries {
		have, err := e.get(call, mine.ID)
		switch {
		case err != nil:
			return true // it is tried again
		case have.Attempt != mine.Attempt || !have.CreatedAt.Equal(mine.CreatedAt):
			return false
		case have.State != Unknown:
			return have.State == Running // that it is unknown is still to be stored
		}
		next := have.Head
		next.Version, next.Note, next.Took, next.DueIn = draw(), nil, have.AsOf.Sub(have.CreatedAt)+ahead, Never
		if !have.DueAt.IsZero() {
			next.DueIn = max(0, have.DueAt.Sub(have.AsOf))
		}
		if _, err = e.replace(call, have.Version, next, nil); !refused(err) {
			return true
		}
	}
	return true
}
