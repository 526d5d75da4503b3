package stet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet/internal/rest"
)

// hub lets the requests of one process that wait for the same record share one look at the store,
// and wakes them at once when the record is settled in this process.
type hub struct {
	limit   int
	mu      sync.Mutex
	waiting int
	rooms   map[ID]*room
}

// room is where requests wait for one record until they are woken.
type room struct {
	woken  chan struct{}
	looked atomic.Bool   // one of those who were woken looks for all
	seen   chan struct{} // closed when it has; what follows is set then
	have   Record
	err    error
}

// look has one of the woken requests ask, and gives all of them the answer. None waits for a lock
// while the store is asked.
func (r *room) look(ask func() (Record, error)) (Record, error) {
	if r.looked.CompareAndSwap(false, true) {
		func() {
			defer close(r.seen)
			r.have, r.err = ask()
		}()
	}
	<-r.seen
	return r.have, r.err
}

// enter joins the room of id. If first is true, the caller watches the store for all of them, and
// empties the room when it leaves.
func (h *hub) enter(id ID) (r *room, first, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting >= h.limit {
		return nil, false, false
	}
	h.waiting++
	r, there := h.rooms[id]
	if !there {
		if h.rooms == nil {
			h.rooms = make(map[ID]*room)
		}
		r = &room{woken: make(chan struct{}), seen: make(chan struct{})}
		h.rooms[id] = r
	}
	return r, !there, true
}

func (h *hub) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting--
}

// wake empties the room of id, if there is one: all requests in it look at the record again. If
// only is not nil, no other room is emptied.
func (h *hub) wake(id ID, only *room) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r, ok := h.rooms[id]; ok && (only == nil || r == only) {
		close(r.woken)
		delete(h.rooms, id)
	}
}

// Bounds of the pause between two looks at a store that cannot wait.
const (
	pollMin = 20 * time.Millisecond
	pollMax = 500 * time.Millisecond
)

// Await takes a decision with the verdict InProgress and asks again whenever its record may have
// changed, until the run elsewhere is settled, its lease is over or was not renewed when it should
// have been, or upTo has passed. If it was not renewed, its holder may have died: the verdict is
// still InProgress, with a RetryAfter that says how long the lease lasts.
//
// Await needs nothing of the request but the decision, so that the caller may drop the body
// meanwhile; a request that has waited so never executes. If the run ended without a result, the
// verdict is still InProgress, with a RetryAfter of 1 s. Any other decision is returned as it is.
// The error is that of ctx, or infrastructure.
func (e *Engine) Await(ctx context.Context, d Decision, upTo time.Duration) (Decision, error) {
	if err := waitBounds.Check(int64(upTo)); err != nil {
		return Decision{}, fmt.Errorf("stet: Await: %w", err)
	}
	d, _, err := e.awaitUntil(ctx, d, time.Now().Add(upTo))
	return d, err
}

// outwait is [Engine.Await] for a caller that still has the request: if the run elsewhere has left
// nothing to answer from, the request asks for the key again.
func (e *Engine) outwait(ctx context.Context, q Request, d Decision) (Decision, error) {
	end := time.Now().Add(q.Wait)
	q.Wait = 0
	for {
		var over bool
		var err error
		if d, over, err = e.awaitUntil(ctx, d, end); err != nil || !over {
			return d, err
		}
		if d, err = e.Begin(ctx, q); err != nil || d.Verdict != InProgress {
			return d, err
		}
	}
}

// awaitUntil is Await. over means that the run is gone and left nothing to answer from.
func (e *Engine) awaitUntil(ctx context.Context, d Decision, end time.Time) (_ Decision, over bool, err error) {
	for d.Verdict == InProgress && time.Now().Before(end) && !unrenewed(&d.Record.Head) {
		seen := d.Record.Version
		have, ok, err := e.await(ctx, &d.Record.Head, end)
		switch {
		case !ok: // too many wait already
			return d, false, nil
		case errors.Is(err, ErrNotFound):
			return comeAgain(d.Record), true, nil
		case err != nil && ctx.Err() != nil:
			return Decision{}, false, fmt.Errorf("stet: waiting for %s: %w", e.Tag(d.Record.ID), err)
		case err != nil:
			return Decision{}, false, fmt.Errorf("%w: %w", ErrUnsettled, err)
		}
		if d, over, err = e.decideAgain(ctx, d, have); over || err != nil {
			return d, over, err
		}
		if d.Record.Version == seen { // woken for nothing: no store must be asked in a tight loop
			rest.For(ctx, min(pollMin, time.Until(end)))
		}
	}
	return d, false, nil
}

// decideAgain judges a record as it is now for a request with the decision before, and reads its
// body if that is not to be left.
func (e *Engine) decideAgain(ctx context.Context, before Decision, have Record) (d Decision, over bool, err error) {
	if d, over = judgeAgain(&before.Record.Head, have); over || before.leave {
		d.leave = before.leave
		return d, over, nil
	}
	return e.readBody(ctx, d, nil)
}

// judgeAgain judges a record as it is now, for a request that asked for what seen says: its
// verdict was InProgress, not Mismatch. over is as in awaitUntil.
func judgeAgain(seen *Head, have Record) (d Decision, over bool) {
	if have.Fingerprint.Recipe != seen.Fingerprint.Recipe { // another life by other rules: not comparable without the body
		return comeAgain(have), true
	}
	other := otherOperation(have.Meta, seen.Meta)
	ruling := judge(&have.Head, !other && have.Fingerprint.equal(seen.Fingerprint))
	switch {
	case ruling.Verdict == Execute:
		return comeAgain(have), true
	case ruling.move != stay: // it lapsed while it was looked at, and is looked at again
		return Decision{Verdict: InProgress, Record: have}, false
	case ruling.Verdict == Mismatch:
		d = Decision{Verdict: Mismatch, Record: have, Mismatch: have.Fingerprint.differs(seen.Fingerprint)}
		if other {
			d.Mismatch = append(d.Mismatch, partOperation)
		}
		return d, false
	}
	return Decision{Verdict: ruling.Verdict, Record: have}, false
}

// shortRest is how long a lease may still last for those who wait to wait for its end, also if it
// was not renewed: then they learn what became of the run.
const shortRest = 5 * time.Second

// waitUntil is the instant up to which it is worthwhile to wait for a run, by the store's clock:
// the end of its lease, or when two tries to renew it have failed. It is zero for a run without an
// end. A holder renews its lease when a third of it is over, and then tries each thirtieth.
func waitUntil(h *Head) time.Time {
	if h.DueAt.IsZero() || h.State != Running || h.Cause == CauseSuspended { // it has no holder
		return h.DueAt
	}
	lease := h.DueAt.Sub(h.UpdatedAt)
	renewed := h.UpdatedAt.Add(lease/3 + 2*lease/30)
	if h.AsOf.After(renewed) {
		renewed = h.AsOf
	}
	if h.DueAt.Sub(renewed) <= shortRest {
		return h.DueAt
	}
	return renewed
}

// unrenewed reports whether the holder of a run may have died, and what became of the run is not
// known soon.
func unrenewed(h *Head) bool {
	until := waitUntil(h)
	return !until.IsZero() && until.Before(h.DueAt) && !h.AsOf.Before(until)
}

// comeAgain is the decision InProgress with nothing left to wait for.
func comeAgain(r Record) Decision {
	r.DueAt = r.AsOf.Add(time.Second)
	return Decision{Verdict: InProgress, Record: r}
}

// await returns the record when it may have changed, when its lease is over, or at end. ok is false
// if too many requests wait.
func (e *Engine) await(ctx context.Context, seen *Head, end time.Time) (have Record, ok bool, err error) {
	r, first, ok := e.hub.enter(seen.ID)
	if !ok {
		return Record{}, false, nil
	}
	defer e.hub.leave()
	if first {
		e.watch(ctx, seen, end, r.woken)
		e.hub.wake(seen.ID, r)
	}
	select {
	case <-r.woken: // by whom it was, what is read from now on is new to all who waited here: one look does
		if ctx.Err() == nil {
			have, err = r.look(func() (Record, error) { return e.lookAt(ctx, seen.ID) })
			return have, true, err
		}
	case <-time.After(time.Until(end)):
		if ctx.Err() == nil {
			have, err = e.lookAt(ctx, seen.ID)
			return have, true, err
		}
	case <-ctx.Done():
	}
	return Record{}, true, ctx.Err()
}

// watch returns when the record may have another version than seen, when its lease is over or was
// not renewed, when the room is woken, or at end.
func (e *Engine) watch(ctx context.Context, seen *Head, end time.Time, woken <-chan struct{}) {
	if until := waitUntil(seen); !until.IsZero() && until.Sub(seen.AsOf) < time.Until(end) {
		end = time.Now().Add(until.Sub(seen.AsOf))
	}
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	if w, ok := As[Waiter](e.store); ok {
		waited := make(chan error, 1)
		go func() { waited <- w.Wait(ctx, seen.ID, seen.Version) }()
		select {
		case <-woken:
			cancel()
			<-waited
			return
		case err := <-waited:
			if err == nil || ctx.Err() != nil {
				return
			}
		}
	}
	e.poll(ctx, seen, woken)
}

// poll looks at the record again and again, for a store that cannot wait, or cannot at the moment.
func (e *Engine) poll(ctx context.Context, seen *Head, woken <-chan struct{}) {
	for pause := pollMin; ; pause = min(2*pause, pollMax) {
		select {
		case <-time.After(pause):
		case <-woken:
			return
		case <-ctx.Done():
			return
		}
		call, cancel := context.WithTimeout(WithMaxBody(ctx, 0), e.cfg.StoreTimeout)
		r, err := e.look(call, seen.ID)
		cancel()
		if errors.Is(err, ErrNotFound) || err == nil && r.Version != seen.Version {
			return
		}
	}
}

// lookAt reads the record, with its body if that is small, and, if its lease has lapsed, writes
// that.
func (e *Engine) lookAt(ctx context.Context, id ID) (have Record, err error) {
	call := detach(ctx, e.cfg.StoreTimeout)
	defer call.release()
	for pause := firstWait; ; {
		have, err = e.look(call, id)
		if err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt) || !sleep(call, &pause, call.deadline()) {
			break
		}
	}
	if err != nil || judge(&have.Head, true).move != lapse {
		return have, err
	}
	got, err := e.replace(call, have.Version, lapsed(&have.Head), nil)
	if refused(err) { // another write was faster
		return e.look(call, id)
	}
	if err == nil {
		e.moved(&got, have.origin(), "request")
		have.Head = got
	}
	return have, err
}
