package stet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
)

// Sweep looks at one page of runs whose lease has lapsed, and ends those that no request or [Completer] is going to take over: as a
// rule they become Unknown, as the next request would find. A run that may be taken over is left to that for as long as its
// result would be kept, and then ends by its own rule: see [LapseRule]. It returns how many it moved, and the cursor of the next
// page, "" after the last. limit is how many it looks at; 0 means [DefaultLimit], and [MaxLimit] is the most.
//
// An error of one record does not keep it from the others; it is returned with the cursor, and the record is met again by the next
// walk. Any number of processes may sweep at once.
//
// [Completer]: https://pkg.go.dev/github.com/stet-dev/stet/flow#Completer
func (e *Engine) Sweep(ctx context.Context, after string, limit int) (n int, next string, err error) {
	return e.eachDue(ctx, Query{States: []State{Running}, After: after, Limit: limit}, func(ctx context.Context, h *Head) (bool, error) {
		next, ok := ending(h)
		if !ok {
			return false, nil
		}
		return e.swap(ctx, h, next, "sweeper")
	})
}

// CauseForsaken is the Cause of a record that stopped at a recovery point, and was not taken up for as long as a result is kept.
const CauseForsaken = "not-resumed"

// ending is what becomes of a lapsed run that nobody has taken over; false: not yet.
func ending(h *Head) (Head, bool) {
	if !mayRunAgain(h) {
		return lapsed(h), true
	}
	next := *h
	next.Version, next.Note = draw(), nil
	switch idle := h.AsOf.Sub(h.DueAt); {
	case h.Rules.OnLapse == LapseAtomic: // this write is the proof that its transaction was not committed, and cannot be any more
		next.State, next.Cause, next.DueIn = Retryable, CauseRolledBack, h.Rules.Retain
	case idle < h.Rules.Retain:
		return Head{}, false
	case h.Rules.OnLapse == LapseReexecute: // a retry would run now as it would have before
		next.State, next.DueIn = Expired, h.Rules.KeepExpired
	default:
		next.State, next.Cause, next.DueIn, next.Took = Unknown, CauseForsaken, 0, h.AsOf.Sub(h.CreatedAt)
	}
	return next, true
}

// MaxReap is the most [Engine.Reap] ends in one call, where the store is a [Reaper].
const MaxReap = 10_000

// fromTheStart is the cursor of a page that begins where the first one did.
const fromTheStart = "again"

// Reap ends a page of up to limit records whose retention is over: it removes them or, where their Rules say so, keeps them as
// Expired for as long as judge would refuse them. It never touches Running and Unknown ones (I10). It returns how many it
// ended, and the cursor of the next page; the rest is as with Sweep, but that limit may be up to [MaxReap]. A store that is a
// [Reaper] removes them together, which is one event: Reaped.
func (e *Engine) Reap(ctx context.Context, after string, limit int) (n int, next string, err error) {
	limit = min(cmp.Or(limit, DefaultLimit), MaxReap)
	if after == "" || after == fromTheStart {
		after = ""
		if n, err = e.reapMany(ctx, limit); n == limit {
			return n, fromTheStart, err
		}
	}
	one, next, failed := e.reapEach(ctx, after, limit)
	return n + one, next, errors.Join(err, failed)
}

// reapMany has the store remove what it can remove by itself.
func (e *Engine) reapMany(ctx context.Context, limit int) (int, error) {
	r, ok := As[Reaper](e.store)
	if !ok {
		return 0, nil
	}
	call := detach(ctx, e.cfg.StoreTimeout)
	defer call.release()
	var n int
	err := e.observed("reap", func() (err error) { n, err = r.Reap(call, limit); return err })
	if n > 0 && e.cfg.Observe != nil {
		e.cfg.Observe(Event{Kind: Reaped, By: "reaper", Count: n})
	}
	if err != nil {
		return n, fmt.Errorf("stet: reaping: %w", err)
	}
	return n, nil
}

// reapEach ends one record after the other.
func (e *Engine) reapEach(ctx context.Context, after string, limit int) (int, string, error) {
	q := Query{States: []State{Completed, Retryable, Expired}, After: after, Limit: limit}
	return e.eachDue(ctx, q, func(ctx context.Context, h *Head) (bool, error) {
		if kept := h.DueAt.Add(h.Rules.KeepExpired).Sub(h.AsOf); h.State == Completed && h.Rules.KeepExpired > 0 && kept > 0 {
			next := *h
			next.Version, next.State, next.DueIn, next.Note = draw(), Expired, kept, nil
			return e.swapBody(ctx, h, next, &Body{}, "reaper")
		}
		call := detach(ctx, e.cfg.StoreTimeout)
		defer call.release()
		err := e.remove(call, h.ID, h.Version)
		if err == nil {
			gone := *h
			gone.State = 0
			e.moved(&gone, h.State, "reaper")
		}
		return err == nil, unlessOvertaken(err)
	})
}

// abreast is how many records are moved at a time. Stores that write groups make one commit of them; it is few, since what a
// request writes may share that commit, or wait behind it: with 16 a Postgres sweeps half as many again, and requests notice.
const abreast = 8

// eachDue acts on one page of what is due, on abreast records at a time. A record that cannot be moved, that somebody holds or that
// is damaged is passed over: it says nothing about the others.
func (e *Engine) eachDue(ctx context.Context, q Query, act func(context.Context, *Head) (bool, error)) (n int, next string, err error) {
	heads, next, err := e.due(ctx, q)
	if err != nil {
		return 0, "", err
	}
	var mu sync.Mutex
	var acting sync.WaitGroup
	slots := make(chan struct{}, abreast)
	for i := range heads {
		h := &heads[i]
		if !h.Over() { // an index that lags behind its record ends no life
			continue
		}
		if ctx.Err() != nil {
			next, err = "", ctx.Err()
			break
		}
		slots <- struct{}{}
		acting.Go(func() {
			defer func() { <-slots }()
			done, failed := act(ctx, h)
			mu.Lock()
			defer mu.Unlock()
			if done {
				n++
			}
			if failed != nil && err == nil && !errors.Is(failed, ErrCorrupt) { // a damaged one is for people
				err = failed
			}
		})
	}
	acting.Wait()
	return n, next, err
}

func (e *Engine) due(ctx context.Context, q Query) (heads []Head, next string, err error) {
	call := detach(ctx, e.cfg.StoreTimeout)
	defer call.release()
	err = e.observed("due", func() (err error) { heads, next, err = e.store.Due(call, q); return err })
	if err != nil {
		return nil, "", fmt.Errorf("stet: what is due: %w", err)
	}
	return heads, next, nil
}

func (e *Engine) swap(ctx context.Context, h *Head, next Head, by string) (bool, error) {
	return e.swapBody(ctx, h, next, nil, by)
}

// swapBody writes next over h; that somebody was faster is no error.
func (e *Engine) swapBody(ctx context.Context, h *Head, next Head, b *Body, by string) (bool, error) {
	call := detach(ctx, e.cfg.StoreTimeout)
	defer call.release()
	got, err := e.replace(call, h.Version, next, b)
	if err == nil {
		e.moved(&got, h.State, by)
	}
	return err == nil, unlessOvertaken(err)
}

func unlessOvertaken(err error) error {
	if errors.Is(err, ErrStale) || errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// Get returns the record of id, or [ErrNotFound]. It changes nothing.
func (e *Engine) Get(ctx context.Context, id ID) (Record, error) {
	call := detach(ctx, e.cfg.StoreTimeout)
	defer call.release()
	return e.get(call, id)
}

// ErrNoList: the store cannot enumerate its records.
var ErrNoList = errors.New("stet: this store cannot list its records")

// List pages through records; see [Lister]. Stet's own are there only where [OwnScope] is asked for. It changes nothing.
func (e *Engine) List(ctx context.Context, q Query) (heads []Head, next string, err error) {
	l, ok := As[Lister](e.store)
	if !ok {
		return nil, "", ErrNoList
	}
	err = e.look(ctx, "list", func(ctx context.Context) error {
		heads, next, err = l.List(ctx, q)
		return err
	})
	return withoutOwn(&q, heads), next, err
}

// ErrNoCount: the store cannot count its records.
var ErrNoCount = errors.New("stet: this store cannot count its records")

// Count counts records; see [Counter]. Stet's own are counted only where [OwnScope] is asked for. It changes nothing.
func (e *Engine) Count(ctx context.Context, q Query) (n int, err error) {
	c, ok := As[Counter](e.store)
	if !ok {
		return 0, ErrNoCount
	}
	err = e.look(ctx, "count", func(ctx context.Context) error {
		mine := e.ownCount(ctx, &q)
		if mine > 0 {
			q.Limit = cmp.Or(max(q.Limit, 0), DefaultLimit) + mine
		}
		n, err = c.Count(ctx, q)
		n = max(0, n-mine)
		return err
	})
	return n, err
}

// look asks the store for somebody who waits for the answer: it ends with ctx, or after StoreTimeout.
func (e *Engine) look(ctx context.Context, op string, ask func(context.Context) error) error {
	call, cancel := context.WithTimeout(ctx, e.cfg.StoreTimeout)
	defer cancel()
	began := e.Clock()
	err := ask(call)
	failed := err
	if errors.Is(ctx.Err(), context.Canceled) { // who asked has gone, which is no fault of the store's
		failed = nil
	}
	e.called(op, began, failed)
	return err
}
