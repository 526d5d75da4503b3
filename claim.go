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
	from   State     // what the record was when the claim was granted; 0: there was none
	began  time.Time // local; just before the write that granted the claim

	mu        sync.Mutex // never held while the store is asked: whoever writes has the turn
	busy      bool       // the turn is taken
	free      chan struct{}
	phase     phase
	stated    State // what the handler has said became of it since it was last settled, if anything
	cause     string
	overdue   bool // ... and that it has not returned
	heartbeat heartbeat

	// What follows is changed only by who has the turn.
	h       Head
	body    Body      // as stored
	renewed time.Time // local; just before the last write that set the lease
	wrote   time.Time // local; just before the last write that was answered
	heard   time.Time // local; just after it was answered
	unsure  []Version // of writes without an answer: one may be what is stored
	mixed   bool      // one of those carried a Body: what is stored may not be body
	joined  *joinedTx // in the phases joined and promised
	first   detached  // of the first write; most claims need no other
	result  struct {  // what Settle stores, kept here because the store's call outlives Settle's frame
		response Response
		body     Body
	}
}

func newClaim(e *Engine, r *Record, p *Policy, began, heard time.Time) *Claim {
	return &Claim{e: e, id: r.ID, policy: *p, h: r.Head, body: r.Body, began: began, renewed: began, wrote: began, heard: heard}
}

// ErrFenced: the record is no longer the holder's. What the holder did stands in nobody's record; the outcome is what the
// record says.
var ErrFenced = errors.New("stet: the claim was overtaken")

// Format implements [fmt.Formatter]: a claim holds its key where package fmt cannot ask it to hide.
func (c *Claim) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "[claim]") }

// ID returns the record's name.
func (c *Claim) ID() ID { return c.id }

// Attempt counts the executions of this key, from 1.
func (c *Claim) Attempt() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.h.Attempt
}

// Fence is the fencing token to hand to downstream systems: see [Head.Fence].
func (c *Claim) Fence() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.h.Fence()
}

// Head returns the record's head as the holder last wrote it. It does not wait for a write that is under way.
func (c *Claim) Head() Head {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.h
}

// NotExecuted states that nothing happened: no effect, anywhere. Settle then frees the key for one retry. cause is a word
// for the record, such as "declined-before-charge"; it must hold nothing of the request. State this only when it is proven.
//
// Statements of a nil Claim, as [ClaimFrom] returns it for a request that runs unguarded, say nothing to anybody.
func (c *Claim) NotExecuted(cause string) { c.state(Retryable, cause, false) }

// Unknown states that it may have happened: a timeout, a lost answer. Settle then records the outcome as unknown, and no
// retry runs until there is evidence.
func (c *Claim) Unknown(cause string) { c.state(Unknown, cause, false) }

// Overdue states [Claim.Unknown] of a handler that has not returned: what it does may still happen. Once that is settled the
// claim attends its record, as long as the process lives: that there is no trace of an effect counts as no proof meanwhile (see
// [Head.Attended]). It ends when the claim is settled again, or by [Claim.Returned].
func (c *Claim) Overdue(cause string) { c.state(Unknown, cause, true) }

// Completed states that the response is the outcome, whatever its status; it also takes back another statement.
func (c *Claim) Completed() { c.state(Completed, "", false) }

func (c *Claim) state(s State, cause string, overdue bool) {
	if c == nil { // a request that runs unguarded: there is nobody to tell
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stated, c.cause, c.overdue = s, cause, overdue
}

// Stated returns what was stated last, or 0: nothing, or nothing since the claim was settled.
func (c *Claim) Stated() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stated
}

// turn waits until nobody writes for the claim, and takes the turn. It returns with the lock held; [Claim.yield] gives both back.
// Between them the lock is let go for each call of the store: see [Claim.outside].
func (c *Claim) turn() {
	c.mu.Lock()
	for c.busy {
		if c.free == nil {
			c.free = make(chan struct{})
		}
		free := c.free
		c.mu.Unlock()
		<-free
		c.mu.Lock()
	}
	c.busy = true
}

func (c *Claim) yield() {
	c.busy = false
	if c.free != nil {
		close(c.free)
		c.free = nil
	}
	c.mu.Unlock()
}

// outside asks the store while the lock is free: what the claim says, and the end of its lease, wait for no store.
func (c *Claim) outside(ask func()) {
	c.mu.Unlock()
	defer c.mu.Lock()
	ask()
}

// Renew extends the lease from now. [Claim.Hold] does it by itself.
func (c *Claim) Renew(ctx context.Context) error {
	c.turn()
	defer c.yield()
	return c.progress(ctx, c.h, nil)
}

// Publish records that bytes of the response are about to leave before the response is stored: from then on nobody may
// invent another answer. It also renews the lease.
func (c *Claim) Publish(ctx context.Context) error {
	c.turn()
	defer c.yield()
	h := c.h
	h.Published = true
	return c.progress(ctx, h, nil)
}

// Downstream records what a system further down knows the effect by: the key it was sent, "" where that is the record's own,
// and the id it answered with, as soon as there is one (S1-39). A notice that knows only one of them then finds the record: see
// [Finder]. It also renews the lease.
func (c *Claim) Downstream(ctx context.Context, key, id string) error {
	c.turn()
	defer c.yield()
	h := c.h
	h.DownstreamKey, h.DownstreamID = key, id
	return c.progress(ctx, h, nil)
}

// progress writes a record that goes on running. The caller has the turn.
func (c *Claim) progress(ctx context.Context, h Head, b *Body) error {
	if !c.phase.allows(step) {
		return fmt.Errorf("%w: the claim is settled", ErrFenced)
	}
	h.DueIn = c.policy.Lease
	if c.phase == joined {
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
	if k := &c.heartbeat; k.claim != nil && !k.over {
		limit = min(limit, time.Until(k.endAt()))
	}
	return limit
}

// put writes h over what the holder wrote last. An earlier write without an answer may have landed: then that one is it, and
// its Body must not stay below another Head. The caller has the turn.
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
	h.Version = newVersion()
	for {
		var got Head
		var err error
		prev := c.h.Version
		c.outside(func() { got, err = c.e.replace(call, prev, h, b) })
		switch {
		case err == nil:
			c.h, c.unsure, c.mixed, c.wrote = got, nil, false, call.began
			if got.State == Running || got.State == Unknown { // nobody asks how long it worked after that
				c.heard = time.Now()
			}
			if b != nil {
				c.body = *b
			}
			return nil
		case errors.Is(err, ErrStale) && slices.Contains(c.unsure, got.Version):
			c.h.Version = got.Version
			c.unsure = slices.DeleteFunc(c.unsure, func(v Version) bool { return v == got.Version })
		case refused(err):
			return ErrFenced
		default:
			c.unsure, c.mixed = append(c.unsure, h.Version), c.mixed || b != nil
			return fmt.Errorf("stet: the store did not take a write: %w", err)
		}
	}
}

// phase is where in its life a claim is.
type phase uint8

const (
	active   phase = iota // it runs, and its lease is kept
	joined                // it is part of a transaction of the caller's: nothing that it wrote there is certain before Confirm
	promised              // it was settled in that transaction
	doubted               // it was settled as unknown: the holder may learn the outcome after all
	ended                 // it was settled or given up, or the record is somebody else's
	phases
)

func (p phase) String() string {
	switch p {
	case active:
		return "active"
	case joined:
		return "joined"
	case promised:
		return "promised"
	case doubted:
		return "doubted"
	case ended:
		return "ended"
	case phases:
	}
	return fmt.Sprintf("phase(%d)", uint8(p))
}

// deed is what is done with a claim, or becomes known of it.
type deed uint8

const (
	step       deed = iota // a write after which the run goes on: a heartbeat, a recovery point
	join                   // Claim.In
	settle                 // an outcome is stored
	doubt                  // ... which is that nobody knows
	suspend                // Claim.Suspend
	committed              // Claim.Confirm: what the transaction wrote is stored
	rolledBack             // ... nothing of it is
	lose                   // the record is somebody else's, or the store gave no answer to the last write there is
	deeds
)

// course says what phase a deed leads to; a deed that is not there is refused, and changes nothing.
var course = [phases]map[deed]phase{
	active:   {step: active, join: joined, settle: ended, doubt: doubted, suspend: ended, lose: ended},
	joined:   {step: joined, settle: promised, doubt: promised, committed: active, rolledBack: active, lose: ended},
	promised: {committed: ended, rolledBack: active, lose: ended},
	doubted:  {settle: ended, doubt: doubted, lose: ended},
	ended:    {},
}

func (p phase) allows(d deed) bool { _, ok := course[p][d]; return ok }

// after is the phase that d leads to. A deed that is not allowed is a mistake in this package.
func (p phase) after(d deed) phase {
	next, ok := course[p][d]
	if !ok {
		panic(fmt.Sprintf("stet: deed %d in phase %v", d, p))
	}
	return next
}
