package stet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// Claim is the right to execute one request, and the duty to say what became of it. It is fenced: once the record was
// changed by somebody else, nothing the holder does changes it any more (I3). Safe for concurrent use.
type Claim struct {
	e      *Engine
	id     ID
	policy Policy
	from   State // what the record was when the claim was granted; 0: there was none

	mu       sync.Mutex
	h        Head
	body     Body      // as stored
	began    time.Time // local; just before the write that granted the claim
	renewed  time.Time // local; just before the last write that set the lease
	wrote    time.Time // local; just before the last write that was answered
	unsure   []Version // of writes without an answer: one may be what is stored
	mixed    bool      // one of those carried a Body: what is stored may not be body
	stated   State     // what the handler says became of it, if anything
	cause    string
	old      bool // that is stored, and nothing was stated since
	finished bool
	keeper   keeper
	joined   *joined  // the transaction it is part of, between In and Confirm
	first    detached // of the first write; most claims need no other
	result   struct { // what Settle stores, kept here because the store's call outlives Settle's frame
		response Response
		body     Body
	}
}

func newClaim(e *Engine, r *Record, p *Policy, began time.Time) *Claim {
	return &Claim{e: e, id: r.ID, policy: *p, h: r.Head, body: r.Body, began: began, renewed: began, wrote: began}
}

// ErrFenced: the record is no longer the holder's. What the holder did stands in nobody's record; the outcome is what the
// record says.
var ErrFenced = errors.New("stet: the claim was overtaken")

// Format implements [fmt.Formatter]: a claim holds its key where package fmt cannot ask it to hide.
func (c *Claim) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "[claim]") }

// ID returns the record's name.
func (c *Claim) ID() ID { return c.id }

// Attempt counts the executions of this key, from 1.
func (c *Claim) Attempt() int { return c.Head().Attempt }

// Fence is the fencing token to hand to downstream systems: see [Head.Fence].
func (c *Claim) Fence() int64 {
	h := c.Head()
	return h.Fence()
}

// Head returns the record's head as the holder last wrote it.
func (c *Claim) Head() Head {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.h
}

// NotExecuted states that nothing happened: no effect, anywhere. Settle then frees the key for one retry. cause is a word
// for the record, such as "declined-before-charge"; it must hold nothing of the request. State this only when it is proven.
func (c *Claim) NotExecuted(cause string) { c.state(Retryable, cause) }

// Unknown states that it may have happened: a timeout, a lost answer. Settle then records the outcome as unknown, and no
// retry runs until there is evidence.
func (c *Claim) Unknown(cause string) { c.state(Unknown, cause) }

// Completed states that the response is the outcome, whatever its status; it also takes back another statement.
func (c *Claim) Completed() { c.state(Completed, "") }

func (c *Claim) state(s State, cause string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stated, c.cause, c.old = s, cause, false
}

// Stated returns what was stated last, or 0: nothing, or nothing since the claim was settled.
func (c *Claim) Stated() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.old {
		return 0
	}
	return c.stated
}

// Outcome is what Settle stores of a completed run.
type Outcome struct {
	Response Response
	Size     int64 // of the body as sent; 0 means len(Response.Body)
	Kept     Kept  // how much of Response there is
}

// Settle writes what became of the run: Completed with o, or what NotExecuted or Unknown stated (o's status is then noted,
// its body is not). It returns when that is stored. [ErrFenced] means the record is somebody else's now. With any other error
// the store did not answer within StoreTimeout, and Settle goes on trying by itself until the lease is over: the key stays
// reserved meanwhile, and is unknown afterwards (W5). A claim that was settled as unknown may be settled once more, by a
// holder that learned the outcome after all, while nobody else has touched the record. An outcome that comes too late for either is
// left with the unknown record as evidence.
func (c *Claim) Settle(ctx context.Context, o Outcome) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished {
		return fmt.Errorf("stet: Settle: %w: the claim is settled", ErrFenced)
	}
	h, b := c.outcome(&o)
	if c.joined != nil {
		err := c.putIn(ctx, h, b)
		c.finished = err == nil
		return err
	}
	c.keeper.stop(context.Canceled)
	from := c.h.State
	err := c.put(ctx, h, b, c.e.cfg.StoreTimeout)
	c.finished = h.State != Unknown || err != nil
	switch {
	case err == nil:
		c.old = true
		c.e.moved(&c.h, from, "holder")
		return nil
	case errors.Is(err, ErrFenced):
		c.testifyOnce(ctx, &h, b)
		return err
	}
	c.e.Observe(Event{Kind: PersistFailed, ID: h.ID, Route: h.Route, TraceID: h.TraceID, To: h.State, Err: err})
	c.persist(context.WithoutCancel(ctx), h, b)
	return err
}

// outcome is the write that settles the claim.
func (c *Claim) outcome(o *Outcome) (Head, *Body) {
	h := c.h
	h.Took, h.Status, h.Size, h.Kept = time.Since(c.began), o.Response.Status, o.Size, o.Kept
	if h.Size == 0 {
		h.Size = int64(len(o.Response.Body))
	}
	h.State, h.Cause = c.stated, c.cause
	if h.State == Retryable && h.Published { // an answer has left: no other may follow it
		h.State = Unknown
	}
	switch h.State {
	case Retryable:
		h.DueIn = h.Rules.Retain
		return h, nil
	case Unknown:
		h.DueIn = 0 // a probe may ask at once
		h.Took = h.UpdatedAt.Sub(h.CreatedAt) + time.Since(c.wrote)
		return h, nil
	}
	h.State, h.Cause, h.DueIn = Completed, "", h.Rules.Retain
	if h.Rules.FromCreation {
		h.DueIn = max(0, h.DueIn-h.UpdatedAt.Sub(h.CreatedAt)-time.Since(c.wrote))
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
	return h, &r.body
}

// persist goes on trying to store an outcome until the lease is over by the local clock.
func (c *Claim) persist(ctx context.Context, h Head, b *Body) {
	end := c.renewed.Add(c.policy.Lease)
	c.e.chores.start(func() {
		pause := 100 * firstWait
		for sleep(ctx, &pause, end) {
			pause = min(pause, c.e.cfg.StoreTimeout)
			c.mu.Lock()
			from := c.h.State
			err := c.put(ctx, h, b, c.e.cfg.StoreTimeout)
			if err == nil {
				c.e.Observe(Event{Kind: Persisted, ID: h.ID, Route: h.Route, TraceID: h.TraceID, To: h.State})
				c.e.moved(&c.h, from, "holder")
			}
			c.mu.Unlock()
			if err == nil {
				return
			}
			if errors.Is(err, ErrFenced) {
				break
			}
		}
		c.testifyLater(ctx, h, b)
	})
}

// Renew extends the lease from now. [Claim.Hold] does it by itself.
func (c *Claim) Renew(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.progress(ctx, c.h, nil)
}

// Publish records that bytes of the response are about to leave before the response is stored: from then on nobody may
// invent another answer. It also renews the lease.
func (c *Claim) Publish(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.h
	h.Published = true
	return c.progress(ctx, h, nil)
}

// Downstream records what a system further down knows the effect by: the key it was sent, "" where that is the record's own,
// and the id it answered with, as soon as there is one (S1-39). A notice that knows only one of them then finds the record: see
// [Finder]. It also renews the lease.
func (c *Claim) Downstream(ctx context.Context, key, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.h
	h.DownstreamKey, h.DownstreamID = key, id
	return c.progress(ctx, h, nil)
}

// progress writes a record that goes on running.
func (c *Claim) progress(ctx context.Context, h Head, b *Body) error {
	if c.finished || c.h.State != Running {
		return fmt.Errorf("%w: the claim is settled", ErrFenced)
	}
	h.DueIn = c.policy.Lease
	if c.joined != nil {
		return c.putIn(ctx, h, b)
	}
	if err := c.put(ctx, h, b, c.patience()); err != nil {
		return err
	}
	c.renewed = c.wrote
	return nil
}

// patience is how long a write of a running record may take: a store that hangs must not keep a held context from ending when
// it has to (I13).
func (c *Claim) patience() time.Duration {
	limit := c.e.cfg.StoreTimeout
	if k := &c.keeper; k.claim != nil && !k.over {
		limit = min(limit, time.Until(k.endAt()))
	}
	return limit
}

// put writes h over what the holder wrote last. An earlier write without an answer may have landed: then that one is it, and
// its Body must not stay below another Head.
func (c *Claim) put(ctx context.Context, h Head, b *Body, within time.Duration) error {
	call := &c.first
	if call.parent != nil {
		call = new(detached)
	}
	call.begin(ctx, within)
	defer call.release()
	if b == nil && c.mixed {
		body := c.body
		b = &body
	}
	h.Version = draw()
	prev := c.h.Version
	for {
		got, err := c.e.replace(call, prev, h, b)
		switch {
		case err == nil:
			c.h, c.unsure, c.mixed, c.wrote = got, nil, false, call.began
			if b != nil {
				c.body = *b
			}
			return nil
		case errors.Is(err, ErrStale) && slices.Contains(c.unsure, got.Version):
			prev, c.h.Version = got.Version, got.Version
			c.unsure = slices.DeleteFunc(c.unsure, func(v Version) bool { return v == got.Version })
		case errors.Is(err, ErrStale), errors.Is(err, ErrNotFound):
			return ErrFenced
		default:
			c.unsure, c.mixed = append(c.unsure, h.Version), c.mixed || b != nil
			return fmt.Errorf("stet: the store did not take a write: %w", err)
		}
	}
}
