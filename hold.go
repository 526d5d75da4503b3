package stet

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// Causes with which a held context ends: see [context.Cause].
var (
	ErrLeaseLost        = errors.New("stet: the lease could not be kept")
	ErrExecutionTimeout = errors.New("stet: the execution took too long")
	ErrAbandoned        = errors.New("stet: the process ends")
)

// Hold keeps the claim while its handler runs, until Settle. The context it returns carries ctx's values but not its end: a
// client that hangs up stops nothing (W12). It ends when the execution takes longer than the policy allows, with cause
// [ErrExecutionTimeout]; when the lease could not be renewed and is about to end by the local clock, or was taken away,
// with cause [ErrLeaseLost]; and when the claim is settled. A handler that goes on after the end can still settle the claim
// as long as nobody else has touched the record.
//
// lost, if not nil, is told once, in a goroutine of its own, after the context ended by itself; it may still be about to be told
// when Settle returns. A claim is held once: Hold again returns the same context.
func (c *Claim) Hold(ctx context.Context, lost Lost) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := &c.keeper
	if k.claim != nil {
		return &k.held
	}
	k.parent, k.claim, k.lost = ctx, c, lost
	if !c.phase.allows(step) { // settled before: there is nothing to hold
		k.over = true
		k.end(context.Canceled)
		return &k.held
	}
	if c.policy.Execution != Never {
		k.timeout = time.Now().Add(c.policy.Execution)
	}
	k.alarm = c.e.alarmIn(k.next(), k)
	c.e.holding.add(k)
	return &k.held
}

// Ended returns the cause with which the held context ended by itself, or nil: it has not, or Settle ended it.
func (c *Claim) Ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keeper.lapsed
}

// Lost is told when a held context has ended by itself, with the cause.
type Lost interface{ Lost(cause error) }

// ClaimFrom returns the claim whose held context ctx is, or comes from: how a handler reaches it. Without one it returns nil.
func ClaimFrom(ctx context.Context) *Claim {
	c, _ := ctx.Value(claimKey{}).(*Claim)
	return c
}

type claimKey struct{}

// held is the context of a held claim. The cancellable context behind it is made when somebody first looks at more than the
// claim: a handler that never asks for Done pays for none.
type held struct {
	parent context.Context
	claim  *Claim

	mu     sync.Mutex
	inner  context.Context
	cancel context.CancelCauseFunc
	cause  error
}

func (h *held) real() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inner == nil {
		h.inner, h.cancel = context.WithCancelCause(context.WithoutCancel(h.parent))
		if h.cause != nil {
			h.cancel(h.cause)
		}
	}
	return h.inner
}

func (h *held) end(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause == nil {
		h.cause = cause
		if h.cancel != nil {
			h.cancel(cause)
		}
	}
}

func (h *held) Deadline() (time.Time, bool) { return time.Time{}, false }
func (h *held) Done() <-chan struct{}       { return h.real().Done() }
func (h *held) Err() error                  { return h.real().Err() }

func (h *held) Value(key any) any {
	if key == (claimKey{}) {
		return h.claim
	}
	return h.real().Value(key)
}

// keeper renews the lease of one claim. One timer serves the heartbeat, the execution timeout and the end of the lease. Its
// fields are guarded by the claim's lock.
type keeper struct {
	held
	lost    Lost
	alarm   *alarm
	timeout time.Time // zero: none
	over    bool
	fenced  bool  // a heartbeat met somebody else's record
	lapsed  error // why it is over, where it ended by itself

	attending *time.Timer // the next time that it is said of the unknown record that the handler has not returned

	before, after *keeper // among those of the engine
}

// stop ends the keeping, if it has begun.
func (k *keeper) stop(cause error) {
	if k.claim == nil || k.over {
		return
	}
	k.over = true
	k.claim.e.holding.remove(k)
	k.claim.e.silence(k.alarm)
	k.end(cause)
}

// The heartbeat comes every third of a lease, so that two may be lost. The holder stops itself before the end, by its own
// clock, which may run slower than the store's: see [Policy.usable].
func (k *keeper) heartbeatAt() time.Time { return k.claim.renewed.Add(k.claim.policy.Lease / 3) }
func (k *keeper) lostAt() time.Time      { return k.claim.renewed.Add(k.claim.policy.usable()) }

// endAt is when the context ends if no heartbeat gets through.
func (k *keeper) endAt() time.Time {
	if at := k.lostAt(); k.timeout.IsZero() || at.Before(k.timeout) {
		return at
	}
	return k.timeout
}

// next is how long until something is to be done.
func (k *keeper) next() time.Duration {
	at := k.heartbeatAt()
	if k.claim.phase != active { // a heartbeat would wait for the transaction
		return time.Until(k.endAt())
	}
	if now := time.Now(); !at.After(now) { // a renewal failed, or goes on: try again soon, and be there when the lease ends
		at = now.Add(k.claim.policy.Lease / 30)
	}
	if end := k.endAt(); end.Before(at) {
		at = end
	}
	return time.Until(at)
}

// wind sets the alarm anew, if the claim is held.
func (k *keeper) wind() {
	if k.claim != nil && !k.over {
		k.alarm.timer.Reset(k.next())
	}
}

func (k *keeper) tick() {
	cause := k.beat()
	if cause == nil {
		return
	}
	if cause == ErrLeaseLost {
		h := k.claim.Head()
		k.claim.e.Observe(Event{Kind: LeaseLost, ID: h.ID, Route: h.Route, TraceID: h.TraceID, Attempt: h.Attempt})
	}
	if k.lost != nil {
		k.lost.Lost(cause)
	}
}

// beat renews, and returns the cause where it is over. It never waits for a write of others: such a write renews, too, and the end
// comes in time whatever the store does.
func (k *keeper) beat() error {
	c := k.claim
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.over {
		return nil
	}
	now := time.Now()
	switch {
	case !k.timeout.IsZero() && !now.Before(k.timeout):
		return k.lapse(ErrExecutionTimeout)
	case !now.Before(k.lostAt()):
		return k.lapse(ErrLeaseLost)
	case !now.Before(k.heartbeatAt()) && c.phase == active && !c.busy:
		k.alarm.timer.Reset(time.Until(k.endAt()))
		if k.renew(); k.over {
			return nil
		}
	}
	if k.fenced {
		return k.lapse(ErrLeaseLost)
	}
	k.alarm.timer.Reset(k.next())
	return nil
}

// renew takes the turn, which is free, and writes.
func (k *keeper) renew() {
	c := k.claim
	c.busy = true
	err := c.progress(k.parent, c.h, nil)
	k.fenced = errors.Is(err, ErrFenced) // other errors: it is tried until endAt
	c.yield()
	c.mu.Lock()
}

func (k *keeper) lapse(cause error) error {
	k.lapsed = cause
	k.stop(cause)
	return cause
}

// alarm is a timer that is used again for other claims.
type alarm struct {
	timer *time.Timer
	owner atomic.Pointer[keeper]
}

func (e *Engine) alarmIn(d time.Duration, k *keeper) *alarm {
	a, ok := e.alarms.Get().(*alarm)
	if !ok {
		a = &alarm{}
		a.owner.Store(k)
		a.timer = time.AfterFunc(d, func() {
			if k := a.owner.Load(); k != nil {
				k.tick()
			}
		})
		return a
	}
	a.owner.Store(k)
	a.timer.Reset(d)
	return a
}

// silence stops the alarm. One that is going off cannot be used again: it might ring for the next claim.
func (e *Engine) silence(a *alarm) {
	if a.timer.Stop() {
		a.owner.Store(nil)
		e.alarms.Put(a)
	}
}
