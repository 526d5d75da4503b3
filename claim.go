package stet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/stet-dev/stet/internal/names"
)

// Claim is the right to execute one request, and the duty to report its outcome. It is fenced: once
// another holder has changed the record, nothing that this holder does changes it any more (I3). A
// Claim is safe for concurrent use.
type Claim struct {
	*claimState
	e     *Engine
	id    ID
	held  heldContext // a handler may keep it
	first detached    // of the first write, which a store may keep; most claims need no other
	from  State       // what the record was when the claim was granted; 0: there was none

	// What is still known after Close.
	attempt int32
	fence   int64
}

// claimState is the large part of a claim. It is used for one claim after another: see
// [Claim.Close]. A claim that was closed still points to it, so each use of it takes the lock and
// then looks whether the state is still the claim's: see [Claim.lock].
type claimState struct {
	mu    sync.Mutex // never held while the store is asked: the one that writes has the turn
	owner *Claim
	claimed
}

// statement is what a handler says became of its run.
type statement struct {
	state   State // 0: nothing
	cause   string
	overdue bool // and that it has not returned
	moved   bool // and that the request belongs elsewhere
}

// claimed is what Close clears of it.
type claimed struct {
	policy    Policy
	began     time.Time // local; just before the write that granted the claim
	busy      bool      // the turn is taken
	free      chan struct{}
	phase     phase
	statement      // what the handler has said became of it since it was last settled
	overran   bool // ... and since the heartbeat has settled it, which is no statement of the handler
	settled   bool // Settle has stored the outcome, outside of a transaction
	heartbeat heartbeat

	// What follows is changed only by who has the turn.
	h       Head
	body    Body      // as stored
	renewed time.Time // local; just before the last write that set the lease
	wrote   time.Time // local; just before the last write that was answered
	heard   time.Time // local; just after it was answered
	unsure  []Version // of writes without an answer: one may be what is stored
	mixed   bool      // one of those carried a Body: what is stored may not be body
	lost    bool      // a copy of a write may still be on its way, and be read
	bound   boundTx   // that it may become part of
	joined  *joinedTx // in the phases joined and promised
	result  struct {  // what Settle stores
		response Response
		body     Body
	}
}

func newClaim(e *Engine, r *Record, p *Policy, began, heard time.Time) *Claim {
	var s *claimState
	if !e.bound { // the engine of a transaction is gone with it, and so would be its memory
		s, _ = e.claims.Get().(*claimState)
	}
	if s == nil {
		s = new(claimState)
	}
	c := &Claim{claimState: s, e: e, id: r.ID}
	s.mu.Lock() // of an earlier claim that looks whether it still owns the state
	defer s.mu.Unlock()
	s.owner, s.policy, s.h, s.body = c, *p, r.Head, r.Body
	s.began, s.renewed, s.wrote, s.heard = began, began, began, heard
	return c
}

// Close gives back the memory of a claim that is settled, so that the engine uses it for other
// claims. Calling it is never necessary, and it does nothing while the claim may still be needed:
// before it is settled, where the store left something open, and after a transaction. It reports
// whether the memory was given back. A guard of package stethttp closes the claims that it made.
//
// A closed claim may still be used. ID, Attempt and Fence answer as before, Head has little more,
// Expires and Stored are empty, statements are ignored, and what would write returns [ErrFenced].
func (c *Claim) Close() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, hb := c.claimState, &c.heartbeat
	if s.owner != c || s.busy || !s.settled || s.lost || s.joined != nil || hb.claim != nil && !hb.quiet || hb.attending != nil {
		return false
	}
	c.attempt, c.fence = int32(s.h.Attempt), s.h.Fence()
	alarm := hb.alarm
	s.owner, s.claimed = nil, claimed{}
	hb.alarm = alarm
	c.e.claims.Put(s)
	return true
}

// lock takes the lock, and reports whether the state is the claim's: it is until Close.
func (c *Claim) lock() bool {
	c.mu.Lock()
	return c.owner == c
}

var errClosed = fmt.Errorf("%w: the claim is settled", ErrFenced)

// ErrFenced is returned when another holder has taken over the record. What this holder reports is
// discarded; the outcome is what the record says.
var ErrFenced = errors.New("stet: another holder has taken over the claim")

// Format implements [fmt.Formatter]. It prints no field: package fmt would print the key, which is
// in an unexported one.
func (c *Claim) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "[claim]") }

// ID returns the record's ID.
func (c *Claim) ID() ID { return c.id }

// Attempt returns which execution of this key the claim is, from 1.
func (c *Claim) Attempt() int {
	h := c.Head()
	return h.Attempt
}

// Fence returns the fencing token to send to downstream systems: see [Head.Fence].
func (c *Claim) Fence() int64 {
	h := c.Head()
	return h.Fence()
}

// DownstreamKey returns the idempotency key for a system further down, such as a payment provider,
// where the request has one effect there. It is the same for all attempts of a life of the key, so
// that an attempt that repeats what an earlier one may have done has its effect once if that system
// honours keys; and another for each life, scope and key, so that no caller gets the answer to
// another's request, nor to its own of a former life. The client's key is none of this: two tenants
// may use the same one. It is opaque, in 43 characters of base64url, and tells nothing of the
// client's key. It costs one SHA-256.
//
// A system is asked for it later with [Head.LifeKey], or {life_key} in the URL of a probe.
func (c *Claim) DownstreamKey() string {
	h := c.Head()
	return h.LifeKey()
}

// Head returns the record's head as the holder last wrote it. It does not wait for a write that is
// under way. After [Claim.Close] it has the ID, the Tag, the Attempt and CreatedAt alone.
func (c *Claim) Head() Head {
	defer c.mu.Unlock()
	if !c.lock() {
		return Head{ID: c.id, Tag: c.e.Tag(c.id), Attempt: int(c.attempt), CreatedAt: time.UnixMicro(c.fence - int64(c.attempt)).UTC()}
	}
	return c.h
}

// Expires returns the end of the retention of the stored result, or zero while there is none.
func (c *Claim) Expires() (at time.Time) {
	if h := c.Head(); h.State == Completed {
		at = h.DueAt
	}
	return at
}

// NotExecuted states that nothing happened: no effect, anywhere. Settle then frees the key for one
// retry. Call it only when that is proven. cause is a word for the record, such as
// "declined-before-charge"; it must hold nothing of the request.
//
// A nil Claim, as [ClaimFrom] returns for a request without a key, ignores all statements.
func (c *Claim) NotExecuted(cause string) { c.say(statement{state: Retryable, cause: cause}) }

// NotHere states [Claim.NotExecuted] for a request that has to be sent elsewhere, as by an answer
// 307 or 308 (RFC 9110 section 15.4.8). Settle then frees the key for any request, whatever its
// path and payload: the one that comes is the first of a new life of the key.
func (c *Claim) NotHere(cause string) {
	c.say(statement{state: Retryable, cause: cause, moved: true})
}

// Unknown states that the effect may have happened: a timeout, a lost answer. Settle then records
// the outcome as unknown, and no retry runs until there is evidence. cause is as in
// [Claim.NotExecuted].
func (c *Claim) Unknown(cause string) { c.say(statement{state: Unknown, cause: cause}) }

// Overdue states [Claim.Unknown] for a handler that has not returned, and may still have its
// effect. After Settle the claim keeps telling the store so, as long as the process lives:
// meanwhile the absence of an effect proves nothing (see [Head.Attended]). This ends when the claim
// is settled again, or with [Claim.Returned].
func (c *Claim) Overdue(cause string) { c.say(statement{state: Unknown, cause: cause, overdue: true}) }

// Completed states that the response is the outcome, whatever its status. It also takes back
// another statement.
func (c *Claim) Completed() { c.say(statement{state: Completed}) }

func (c *Claim) say(s statement) {
	if c == nil { // a request that runs unguarded has no claim
		return
	}
	defer c.mu.Unlock()
	if c.lock() {
		c.statement = s
	}
}

// Stated returns the last statement since the claim was settled, or 0 if there is none.
func (c *Claim) Stated() State {
	defer c.mu.Unlock()
	if !c.lock() {
		return 0
	}
	return c.statement.state
}

// turn waits until no other goroutine writes for the claim, and takes the turn. It returns with the
// lock held; [Claim.yield] gives both back. In between, the lock is released for each call of the
// store: see [Claim.outside]. After Close there is none to take, and the lock is not held.
func (c *Claim) turn() error {
	c.mu.Lock()
	for c.owner == c && c.busy {
		if c.free == nil {
			c.free = make(chan struct{})
		}
		free := c.free
		c.mu.Unlock()
		<-free
		c.mu.Lock()
	}
	if c.owner != c {
		c.mu.Unlock()
		return errClosed
	}
	c.busy = true
	return nil
}

func (c *Claim) yield() {
	c.busy = false
	if c.free != nil {
		close(c.free)
		c.free = nil
	}
	c.mu.Unlock()
}

// outside calls ask without the lock, so that statements and the end of the lease wait for no
// store.
func (c *Claim) outside(ask func()) {
	c.mu.Unlock()
	defer c.mu.Lock()
	ask()
}

// Renew extends the lease from now. A claim that is held ([Claim.Hold]) is renewed by its
// heartbeat.
func (c *Claim) Renew(ctx context.Context) error {
	return c.advance(ctx, func(*Head) {})
}

// Publish records that bytes of the response are about to leave before the response is stored. From
// then on no other answer may be given to a retry. It also renews the lease.
func (c *Claim) Publish(ctx context.Context) error {
	return c.advance(ctx, func(h *Head) { h.Published = true })
}

func (c *Claim) advance(ctx context.Context, change func(h *Head)) error {
	if err := c.turn(); err != nil {
		return err
	}
	defer c.yield()
	h := c.h
	change(&h)
	return c.progress(ctx, &h, nil)
}

// progress writes a record that goes on running. The caller has the turn.
func (c *Claim) progress(ctx context.Context, h *Head, b *Body) error {
	if !c.phase.allows(step) {
		return errClosed
	}
	h.DueIn = c.policy.Lease
	if c.phase == joined {
		return c.putIn(ctx, h, b)
	}
	if err := c.put(ctx, h, b, time.Now(), c.patience()); err != nil {
		return err
	}
	c.renewed = c.wrote
	return nil
}

// patience is how long a write of a running record may take: a store that hangs must not keep a
// held context from ending in time (I13).
func (c *Claim) patience() time.Duration {
	limit := c.e.cfg.StoreTimeout
	if k := &c.heartbeat; k.claim != nil && !k.over {
		limit = min(limit, time.Until(k.endAt()))
	}
	return limit
}

// put writes h over what the holder wrote last. If an earlier write was not answered, it may have
// landed: then put writes over that one, and sends the Body with it, because the stored Body may be
// the other write's. The caller has the turn.
func (c *Claim) put(ctx context.Context, h *Head, b *Body, now time.Time, within time.Duration) error {
	call := &c.first
	if call.parent != nil {
		call = new(detached)
	}
	call.begin(ctx, now, within)
	defer call.release()
	if b == nil && c.mixed {
		body := c.body
		b = &body
	}
	h.Version = newVersion()
	w := intent{head: *h, body: b}
	var got Record
	for {
		var err error
		w.prev = c.h.Version
		c.outside(func() { err = c.e.insist(call, &w, &got) })
		c.lost = c.lost || w.lost
		switch {
		case err == nil:
			c.h, c.unsure, c.mixed, c.wrote = got.Head, nil, false, call.began
			if got.State == Running || got.State == Unknown { // only these records need to know how long it worked
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

// phase is the state of a claim in this process.
type phase uint8

const (
	active   phase = iota // it runs, and its lease is kept
	joined                // it is part of a transaction of the caller's: nothing that it wrote there is certain before Confirm
	promised              // it was settled in that transaction
	doubted               // it was settled as unknown: the holder may learn the outcome after all
	ended                 // it was settled or given up, or the record has another holder
	phases
)

var phaseNames = [...]string{"active", "joined", "promised", "doubted", "ended"}

func (p phase) String() string { return names.Of("phase", phaseNames[:], p) }

// deed is an operation on a claim, or news about it.
type deed uint8

const (
	step       deed = iota // a write after which the run goes on: a heartbeat, a recovery point
	join                   // Claim.In
	settle                 // an outcome is stored
	doubt                  // ... which is that it is unknown
	suspend                // Claim.Suspend
	committed              // Claim.Confirm: what the transaction wrote is stored
	rolledBack             // ... nothing of it is
	lose                   // the record has another holder, or the store gave no answer to the last write there is
	deeds
)

// course is the phase that each deed leads to. A deed that is missing is refused, and changes
// nothing.
var course = [phases]map[deed]phase{
	active:   {step: active, join: joined, settle: ended, doubt: doubted, suspend: ended, lose: ended},
	joined:   {step: joined, settle: promised, doubt: promised, committed: active, rolledBack: active, lose: ended},
	promised: {committed: ended, rolledBack: active, lose: ended},
	doubted:  {settle: ended, doubt: doubted, lose: ended},
	ended:    {},
}

func (p phase) allows(d deed) bool { _, ok := course[p][d]; return ok }

// after is the phase that d leads to. It panics if d is not allowed, which is a mistake in this
// package.
func (p phase) after(d deed) phase {
	next, ok := course[p][d]
	if !ok {
		panic(fmt.Sprintf("stet: deed %d in phase %v", d, p))
	}
	return next
}
