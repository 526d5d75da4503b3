package stet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// hub lets the requests of one process that wait for the same record share one look at the store, and wakes them at once
// when the record is settled in this process.
type hub struct {
	limit   int
	mu      sync.Mutex
	waiting int
	rooms   map[ID]chan struct{}
}

// enter joins the room of id. first: this caller looks after the store for all of them, and calls wake when it leaves.
func (h *hub) enter(id ID) (woken <-chan struct{}, first, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting >= h.limit {
		return nil, false, false
	}
	h.waiting++
	room, there := h.rooms[id]
	if !there {
		if h.rooms == nil {
			h.rooms = make(map[ID]chan struct{})
		}
		room = make(chan struct{})
		h.rooms[id] = room
	}
	return room, !there, true
}

func (h *hub) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting--
}

// wake empties the room: everybody looks at the record again.
func (h *hub) wake(id ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if room, ok := h.rooms[id]; ok {
		close(room)
		delete(h.rooms, id)
	}
}

// Bounds of the pause between two looks at a store that cannot wait.
const (
	pollMin = 20 * time.Millisecond
	pollMax = 500 * time.Millisecond
)

// Await takes an InProgress decision and asks again whenever its record may have changed, until the run elsewhere is
// settled, its lease is over, or upTo has passed. It needs nothing of the request but the decision: the caller may drop the
// body meanwhile, and therefore who has waited never executes. Where the run ended without a result, the decision is still
// InProgress, and to ask again at once. Any other decision is returned as it is. The error is ctx's, or infrastructure.
func (e *Engine) Await(ctx context.Context, d Decision, upTo time.Duration) (Decision, error) {
	for end := time.Now().Add(upTo); d.Verdict == InProgress && time.Now().Before(end); {
		until := time.Now().Add(d.Record.DueAt.Sub(d.Record.AsOf))
		if until.After(end) {
			until = end
		}
		if !e.await(ctx, &d.Record.Head, until) {
			return d, nil
		}
		if err := ctx.Err(); err != nil {
			return Decision{}, fmt.Errorf("stet: waiting for %s: %w", e.Tag(d.Record.ID), err)
		}
		var over bool
		var err error
		if d, over, err = e.look(ctx, &d.Record.Head); over || err != nil {
			return d, err
		}
	}
	return d, nil
}

// look judges the record as it is now. The request asked for what seen says: its verdict was InProgress, not Mismatch. over:
// the run is gone and left nothing to answer from.
func (e *Engine) look(ctx context.Context, seen *Head) (d Decision, over bool, err error) {
	call := detach(ctx, e.cfg.StoreTimeout)
	defer call.release()
	have, err := e.get(call, seen.ID)
	switch {
	case errors.Is(err, ErrNotFound):
		return comeAgain(Record{Head: *seen}), true, nil
	case err != nil:
		return Decision{}, false, fmt.Errorf("%w: %w", ErrUnsettled, err)
	case have.Fingerprint.Recipe != seen.Fingerprint.Recipe: // another life by other rules: not comparable without the body
		return comeAgain(have), true, nil
	}
	ruling := judge(&have.Head, have.Fingerprint.Equal(seen.Fingerprint))
	switch {
	case ruling.Verdict == Execute:
		return comeAgain(have), true, nil
	case ruling.Move == Lapse:
		if _, err := e.swap(ctx, &have.Head, lapsed(&have.Head), "request"); err != nil {
			return Decision{}, false, fmt.Errorf("%w: %w", ErrUnsettled, err)
		}
	}
	return Decision{Verdict: ruling.Verdict, Record: have}, false, nil
}

// comeAgain: InProgress, and nothing to wait for any more.
func comeAgain(r Record) Decision {
	r.DueAt = r.AsOf.Add(time.Second)
	return Decision{Verdict: InProgress, Record: r}
}

// await returns when the record may have changed, at until, or when ctx ends. It reports false where too many wait already.
func (e *Engine) await(ctx context.Context, seen *Head, until time.Time) bool {
	woken, first, ok := e.hub.enter(seen.ID)
	if !ok {
		return false
	}
	defer e.hub.leave()
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if first {
		defer e.hub.wake(seen.ID)
		e.watch(ctx, seen, woken)
		return true
	}
	select {
	case <-woken:
	case <-ctx.Done():
	}
	return true
}

// watch looks after the store until the record has another version.
func (e *Engine) watch(ctx context.Context, seen *Head, woken <-chan struct{}) {
	if w, ok := As[Waiter](e.store); ok {
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() { defer close(done); _ = w.Wait(ctx, seen.ID, seen.Version) }()
		select {
		case <-woken:
		case <-done:
		}
		cancel()
		<-done
		return
	}
	for pause := pollMin; ; pause = min(2*pause, pollMax) {
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-woken:
			t.Stop()
			return
		case <-ctx.Done():
			t.Stop()
			return
		}
		if r, err := e.get(ctx, seen.ID); err != nil || r.Version != seen.Version {
			return
		}
	}
}
