package stet

import (
	"context"
	"errors"
	"sync"
	"time"
)

// The causes with which a held context ends: see [Claim.Hold] and [context.Cause].
var (
	// ErrLeaseLost is the cause when the lease was taken over or could not be renewed.
	ErrLeaseLost = errors.New("stet: the lease could not be kept")
	// ErrExecutionTimeout is the cause when the execution took longer than [Policy].Execution.
	ErrExecutionTimeout = errors.New("stet: the execution took too long")
	// ErrAbandoned is the cause when [Engine.Abandon] was called.
	ErrAbandoned = errors.New("stet: the process ends")
)

// Hold keeps the claim until Settle: a heartbeat renews the lease while the handler runs. The
// returned context carries the values of ctx but not its end, since a client that hangs up must
// stop nothing (W12). It ends
//
//   - with cause [ErrExecutionTimeout] when the execution takes longer than the policy allows;
//   - with cause [ErrLeaseLost] when the lease was taken over, or could not be renewed and is about
//     to end by the local clock;
//   - with cause [ErrAbandoned] on [Engine.Abandon];
//   - when the claim is settled.
//
// A handler that goes on after that can still settle the claim, unless another holder has changed
// the record.
//
// When the context ends for one of the three causes, the outcome is stored as unknown at once. The
// handler may still be at work: until it returns and the claim is settled, or [Claim.Returned] is
// called, the absence of an effect proves nothing (see [Claim.Overdue]). If lost is non-nil, it is
// called instead, at most once and in its own goroutine, possibly after Settle returns, and does
// that itself. A second call of Hold returns the same context.
func (c *Claim) Hold(ctx context.Context, lost Lost) context.Context {
	defer c.mu.Unlock()
	mine, hb := c.lock(), &c.heartbeat
	if c.held.claim != nil {
		return &c.held
	}
	c.held.parent, c.held.claim = ctx, c
	if !mine || !c.phase.allows(step) { // settled before: there is nothing to hold
		c.held.end(context.Canceled)
		return &c.held
	}
	hb.claim, hb.lost = c, lost
	now := time.Now()
	if c.policy.Execution != Never {
		hb.timeout = now.Add(c.policy.Execution)
	}
	if hb.alarm == nil {
		hb.alarm = time.AfterFunc(hb.next(now), c.claimState.tick)
	} else {
		hb.alarm.Reset(hb.next(now))
	}
	c.e.inFlight.add(hb)
	return &c.held
}

// Ended returns the cause with which the held context ended before Settle, or nil.
func (c *Claim) Ended() error {
	defer c.mu.Unlock()
	if !c.lock() {
		return nil
	}
	return c.heartbeat.lapsed
}

// Lost is called with the cause when a held context has ended before the claim was settled.
type Lost interface{ Lost(cause error) }

// ClaimFrom returns the claim that ctx, or a context it was derived from, holds: a handler reaches
// its claim with it. It returns nil if there is none.
func ClaimFrom(ctx context.Context) *Claim {
	c, _ := ctx.Value(claimKey{}).(*Claim)
	return c
}

type claimKey struct{}

// heldContext is the context of a held claim. The cancellable context behind it is made on the
// first use of more than the claim, so that a handler that never asks for Done pays for none.
type heldContext struct {
	parent context.Context
	claim  *Claim

	mu    sync.Mutex
	inner *cancellable
	cause error
}

type cancellable struct {
	context.Context
	cancel context.CancelCauseFunc
}

func (h *heldContext) real() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.inner == nil {
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(h.parent))
		h.inner = &cancellable{ctx, cancel}
		if h.cause != nil {
			cancel(h.cause)
		}
	}
	return h.inner.Context
}

func (h *heldContext) end(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause == nil {
		h.cause = cause
		if h.inner != nil {
			h.inner.cancel(cause)
		}
	}
}

func (h *heldContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (h *heldContext) Done() <-chan struct{}       { return h.real().Done() }
func (h *heldContext) Err() error                  { return h.real().Err() }

func (h *heldContext) Value(key any) any {
	if key == (claimKey{}) {
		return h.claim
	}
	return h.real().Value(key)
}

// heartbeat renews the lease of one claim. One timer serves the renewals, the execution timeout and
// the end of the lease. The claim's lock guards its fields.
type heartbeat struct {
	claim   *Claim // nil before Hold
	lost    Lost
	alarm   *time.Timer
	timeout time.Time // zero: none
	over    bool
	quiet   bool  // the alarm was stopped before it went off
	fenced  bool  // a heartbeat met the record of another holder
	lapsed  error // why it is over, where it ended by itself

	attending *time.Timer // the next time that it is said of the unknown record that the handler has not returned
}

// stop ends the heartbeat, if it was started.
func (hb *heartbeat) stop(cause error) {
	if hb.claim == nil || hb.over {
		return
	}
	hb.over = true
	hb.claim.e.inFlight.remove(hb)
	hb.quiet = hb.alarm.Stop() && hb.lapsed == nil
	hb.claim.held.end(cause)
}

// A renewal is due every third of a lease, so that two may be lost. The holder stops before the
// lease ends, by its own clock, which may run slower than the store's: see [Policy.usable].
func (hb *heartbeat) heartbeatAt() time.Time { return hb.claim.renewed.Add(hb.claim.policy.Lease / 3) }
func (hb *heartbeat) lostAt() time.Time      { return hb.claim.renewed.Add(hb.claim.policy.usable()) }

// endAt is when the context ends if no renewal succeeds.
func (hb *heartbeat) endAt() time.Time {
	if at := hb.lostAt(); hb.timeout.IsZero() || at.Before(hb.timeout) {
		return at
	}
	return hb.timeout
}

// next is the time until the alarm has to go off.
func (hb *heartbeat) next(now time.Time) time.Duration {
	at := hb.heartbeatAt()
	if hb.claim.phase != active { // a heartbeat would wait for the transaction
		return hb.endAt().Sub(now)
	}
	if !at.After(now) { // a renewal failed, or goes on: try again soon, and be there when the lease ends
		at = now.Add(hb.claim.policy.Lease / 30)
	}
	if end := hb.endAt(); end.Before(at) {
		at = end
	}
	return at.Sub(now)
}

// wind sets the alarm again, if the claim is held.
func (hb *heartbeat) wind() {
	if hb.claim != nil && !hb.over {
		hb.alarm.Reset(hb.next(time.Now()))
	}
}

// tick is what the alarm calls. It belongs to the state and not to a claim: an alarm that has gone
// off may come to the lock when the claim is closed, or when another one has the state.
func (s *claimState) tick() {
	c, lost, cause := s.beat()
	if cause == nil {
		return
	}
	if cause == ErrLeaseLost {
		h := c.Head()
		c.e.Observe(Event{Kind: LeaseLost, ID: h.ID, Route: h.Route, TraceID: h.TraceID, Attempt: h.Attempt})
	}
	if lost != nil {
		lost.Lost(cause)
		return
	}
	c.e.Go(0, func() { c.overrun(cause) })
}

// overrun settles a run whose time is over, and whose handler has not returned, for a front end
// that does not do so itself. What the handler says meanwhile is about when it returns. A
// transaction tells by itself what became of it.
func (c *Claim) overrun(cause error) {
	if c.turn() != nil {
		return
	}
	defer c.yield()
	if c.phase == active {
		c.overran = true
		_ = c.settleAs(c.held.parent, statement{state: Unknown, cause: CauseOf(cause), overdue: true}, &Outcome{}) // what could not be stored is kept
	}
}

// CauseOf is the word for the cause with which a held context ended, for [Claim.Overdue].
func CauseOf(cause error) string {
	switch {
	case errors.Is(cause, ErrExecutionTimeout):
		return "execution-timeout"
	case errors.Is(cause, ErrAbandoned):
		return CauseAbandoned
	}
	return "lease-lost"
}

// beat renews the lease, and returns the cause if the context has ended, with whose it was. It
// never waits for another write of the claim: that renews the lease as well, and the context must
// end in time whatever the store does.
func (s *claimState) beat() (c *Claim, lost Lost, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, hb := s.owner, &s.heartbeat
	if c == nil || hb.claim != c || hb.over {
		return nil, nil, nil
	}
	lost = hb.lost
	now := time.Now()
	switch {
	case !hb.timeout.IsZero() && !now.Before(hb.timeout):
		return c, lost, hb.lapse(ErrExecutionTimeout)
	case !now.Before(hb.lostAt()):
		return c, lost, hb.lapse(ErrLeaseLost)
	case !now.Before(hb.heartbeatAt()) && c.phase == active && !c.busy:
		hb.alarm.Reset(time.Until(hb.endAt()))
		if c.renewLease(); s.owner != c || hb.over { // settled meanwhile, and maybe closed
			return nil, nil, nil
		}
	}
	if hb.fenced {
		return c, lost, hb.lapse(ErrLeaseLost)
	}
	hb.alarm.Reset(hb.next(time.Now()))
	return nil, nil, nil
}

// renewLease takes the turn, which is free, and writes. It gives up the lock meanwhile.
func (c *Claim) renewLease() {
	c.busy = true
	h := c.h
	err := c.progress(c.held.parent, &h, nil)
	c.heartbeat.fenced = errors.Is(err, ErrFenced) // other errors: it is tried until endAt
	c.yield()
	c.mu.Lock()
}

func (hb *heartbeat) lapse(cause error) error {
	hb.lapsed = cause
	hb.stop(cause)
	return cause
}

// attend starts to tell the store, every third of a lease, that the handler of an unknown record
// has not returned. The caller has the turn.
func (c *Claim) attend(ctx context.Context) {
	hb := &c.heartbeat
	if hb.attending != nil || c.h.State == Completed || c.h.State == Retryable {
		return
	}
	ctx = context.WithoutCancel(ctx)
	hb.attending = time.AfterFunc(c.policy.Lease/3, func() {
		if c.turn() != nil {
			return
		}
		defer c.yield()
		if hb.attending != nil && c.witness(ctx, c.policy.Lease) {
			hb.attending.Reset(c.policy.Lease / 3)
		}
	})
}

// Returned ends what [Claim.Overdue] started, for a handler that returned without an outcome: it
// can have no further effect, and settling time begins. Without Overdue it does nothing.
func (c *Claim) Returned(ctx context.Context) {
	if c.turn() != nil {
		return
	}
	defer c.yield()
	if c.unattend() {
		c.witness(ctx, 0)
	}
}

// unattend reports whether the record was attended.
func (c *Claim) unattend() bool {
	hb := &c.heartbeat
	if hb.attending == nil {
		return false
	}
	hb.attending.Stop()
	hb.attending = nil
	return true
}

// witness writes that the handler works for the time ahead, or, if that is 0, that it has returned.
// Others, such as a reconciler, may have changed the record meanwhile: it is still this run's while
// it is unknown and of this attempt. It returns false if there is nothing left to say.
func (c *Claim) witness(ctx context.Context, ahead time.Duration) bool {
	if c.phase == doubted && c.h.State == Unknown { // as far as this claim has heard: it may be that it was not answered
		h := c.h
		h.DueIn, h.Note, h.Took = 0, nil, c.worked()+ahead
		if err := c.put(ctx, &h, nil, time.Now(), c.e.cfg.StoreTimeout); err == nil {
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
	call.most = 0
	for range tries {
		have, err := e.look(call, mine.ID)
		switch {
		case err != nil:
			return true // it is tried again
		case have.Fence() != mine.Fence():
			return false
		case have.State != Unknown:
			return have.State == Running // that it is unknown is still to be stored
		}
		next := have.Head
		next.keepSince(have.Ended())
		next.Version, next.Note, next.Took, next.DueIn = newVersion(), nil, have.AsOf.Sub(have.CreatedAt)+ahead, have.dueStill()
		if _, err = e.replace(call, have.Version, next, nil); !refused(err) {
			return true
		}
	}
	return true
}

// inFlight are the claims that are held in this process.
type inFlight struct {
	mu    sync.Mutex
	beats map[*heartbeat]struct{}
}

func (h *inFlight) add(hb *heartbeat) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.beats == nil {
		h.beats = make(map[*heartbeat]struct{})
	}
	h.beats[hb] = struct{}{}
}

func (h *inFlight) remove(hb *heartbeat) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.beats, hb)
}

func (h *inFlight) all() (claims []*Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for hb := range h.beats {
		claims = append(claims, hb.claim)
	}
	return claims
}

// CauseAbandoned is the Cause of a record whose process ended before its run did.
const CauseAbandoned = "abandoned"

// Abandon is for a process that has to end before its runs do. It ends every held context with
// cause [ErrAbandoned], and makes their records unknown at once instead of when their leases end,
// so that reconciliation can begin. It returns how many there were. A handler that still returns
// can settle its claim, as after a timeout.
func (e *Engine) Abandon(ctx context.Context) int {
	claims := e.inFlight.all()
	n := 0
	var wg sync.WaitGroup
	for _, c := range claims {
		lost, mine := c.abandon()
		if !mine {
			continue
		}
		n++
		wg.Go(func() {
			if lost != nil { // it settles, and tells its client
				lost.Lost(ErrAbandoned)
				return
			}
			c.overrun(ErrAbandoned)
		})
	}
	wg.Wait()
	return n
}

// abandon ends the held context. It returns false if that has ended already.
func (c *Claim) abandon() (Lost, bool) {
	defer c.mu.Unlock()
	mine, hb := c.lock(), &c.heartbeat
	if !mine || hb.over || c.phase != active { // a transaction tells by itself: uncommitted, it is rolled back
		return nil, false
	}
	_ = hb.lapse(ErrAbandoned)
	return hb.lost, true
}
