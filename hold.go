package stet

import (
	"context"
	"errors"
	"time"
)

// Causes with which a held context ends: see [context.Cause].
var (
	ErrLeaseLost        = errors.New("stet: the lease could not be kept")
	ErrExecutionTimeout = errors.New("stet: the execution took too long")
)

// keeper renews the lease of one claim while its handler runs. One timer serves the heartbeat, the execution timeout and the
// end of the lease.
type keeper struct {
	c       *Claim
	ctx     context.Context
	cancel  context.CancelCauseFunc
	lost    func(error)
	timer   *time.Timer
	timeout time.Time // zero: none
	ended   bool      // under c.mu, as all that follows the start
}

// Hold keeps the claim while its handler runs. The context it returns carries ctx's values but not its end: a client that
// hangs up stops nothing (W12). It ends when the execution takes longer than the policy allows, with cause
// [ErrExecutionTimeout]; when the lease could not be renewed and is about to end by the local clock, or was taken away,
// with cause [ErrLeaseLost]; or when stop is called. A handler that goes on after the end can still settle the claim as
// long as nobody else has touched the record.
//
// lost, if not nil, is called once in its own goroutine after the context ended by itself, with the cause; not after stop
// has returned true. stop ends the keeping and reports whether lost was, and will be, not called. Settle stops as well.
func (c *Claim) Hold(ctx context.Context, lost func(cause error)) (held context.Context, stop func() bool) {
	k := &keeper{c: c, lost: lost}
	k.ctx, k.cancel = context.WithCancelCause(withClaim{context.WithoutCancel(ctx), c})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopKeeping()
	c.keeping = k
	if c.policy.Execution != Never {
		k.timeout = time.Now().Add(c.policy.Execution)
	}
	k.timer = time.AfterFunc(k.next(), k.tick)
	return k.ctx, k.stop
}

// withClaim is a context that knows its claim.
type withClaim struct {
	context.Context
	claim *Claim
}

type claimKey struct{}

func (w withClaim) Value(key any) any {
	if key == (claimKey{}) {
		return w.claim
	}
	return w.Context.Value(key)
}

// ClaimFrom returns the claim whose held context ctx is, or comes from: how a handler reaches it. Without one it returns nil.
func ClaimFrom(ctx context.Context) *Claim {
	c, _ := ctx.Value(claimKey{}).(*Claim)
	return c
}

func (k *keeper) stop() bool {
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	return k.end(context.Canceled)
}

// stopKeeping ends the keeper that is there. The claim is locked.
func (c *Claim) stopKeeping() {
	if c.keeping != nil {
		c.keeping.end(context.Canceled)
	}
}

func (k *keeper) end(cause error) bool {
	if k.ended {
		return false
	}
	k.ended = true
	k.timer.Stop()
	k.cancel(cause)
	return true
}

// The heartbeat comes every third of a lease, so that two may be lost. The holder stops itself a tenth of a lease before the
// end, by its own clock, which may run slower than the store's: local time only ever shortens a lease (I13).
func (k *keeper) heartbeat() time.Duration { return k.c.policy.Lease / 3 }
func (k *keeper) lostAt() time.Time {
	return k.c.renewed.Add(k.c.policy.Lease - k.c.policy.Lease/10)
}

// next is how long until something is to be done.
func (k *keeper) next() time.Duration {
	at := k.c.renewed.Add(k.heartbeat())
	if now := time.Now(); !at.After(now) { // a renewal failed: try again soon, and be there when the lease ends
		at = now.Add(k.heartbeat() / 10)
		if end := k.lostAt(); end.Before(at) {
			at = end
		}
	}
	if !k.timeout.IsZero() && k.timeout.Before(at) {
		at = k.timeout
	}
	return time.Until(at)
}

func (k *keeper) tick() {
	if cause := k.beat(); cause != nil {
		if cause == ErrLeaseLost {
			k.c.e.Observe(leaseLost(k.c.Head()))
		}
		if k.lost != nil {
			k.lost(cause)
		}
	}
}

func leaseLost(h Head) Event {
	return Event{Kind: LeaseLost, ID: h.ID, Route: h.Route, TraceID: h.TraceID, Attempt: h.Attempt}
}

// beat renews, and returns the cause where it is over.
func (k *keeper) beat() error {
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	if k.ended {
		return nil
	}
	var over error
	switch now := time.Now(); {
	case !k.timeout.IsZero() && !now.Before(k.timeout):
		over = ErrExecutionTimeout
	case !now.Before(k.lostAt()):
		over = ErrLeaseLost
	case !now.Before(k.c.renewed.Add(k.heartbeat())):
		if err := k.c.progress(k.ctx, k.c.h, nil); errors.Is(err, ErrFenced) {
			over = ErrLeaseLost
		}
	}
	if over != nil && k.end(over) {
		return over
	}
	if !k.ended {
		k.timer.Reset(k.next())
	}
	return nil
}
