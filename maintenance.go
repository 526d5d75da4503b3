package stet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stet-dev/stet/internal/walk"
)

// Sweep looks at one page of runs whose lease has lapsed, and ends those that no request and no
// [Completer] will take over: as a rule they become Unknown, as the next request would find. A run
// that may be taken over is left alone for as long as its result would be kept, and then ends by
// its own rule: see [LapseRule]. Sweep also does what [Operator.Inherit] does.
//
// Sweep returns how many records it changed and the cursor of the next page, "" after the last.
// limit is how many it looks at; 0 means [DefaultLimit], and [MaxLimit] is the most. An error about
// one record does not keep it from the others: it is returned with the cursor, and the next walk
// meets the record again. Any number of processes may sweep at once.
//
// [Completer]: https://pkg.go.dev/github.com/stet-dev/stet/flow#Completer
func (o *Operator) Sweep(ctx context.Context, after string, limit int) (n int, next string, err error) {
	inherited, missed := o.Inherit(ctx)
	q := Query{States: []State{Running}, After: after, Limit: limit}
	n, next, err = o.e.eachDue(ctx, q, func(ctx context.Context, h *Head) (bool, error) {
		next, ok := ending(h)
		if !ok {
			return false, nil
		}
		return o.e.swap(ctx, h, next, nil, "sweeper")
	})
	return inherited + n, next, errors.Join(missed, err)
}

// causeForsaken is the Cause of a record that stopped at a recovery point, and was not taken up for
// as long as a result is kept.
const causeForsaken = "not-resumed"

// ending is what becomes of a lapsed run that was not taken over; false means that its time has not
// come.
func ending(h *Head) (Head, bool) {
	if !mayRunAgain(h) {
		return lapsed(h), true
	}
	next := *h
	next.Version, next.Note = newVersion(), nil
	switch idle := h.AsOf.Sub(h.DueAt); {
	case h.Rules.OnLapse == LapseAtomic: // this write proves that its transaction is not committed, and cannot be
		next.State, next.Cause, next.DueIn = Retryable, CauseRolledBack, h.Rules.Retain
	case idle < h.Rules.Retain:
		return Head{}, false
	case h.Rules.OnLapse == LapseReexecute: // a retry would run now as it would have before
		next.State, next.DueIn = Expired, h.Rules.KeepExpired
	default:
		next.State, next.Cause, next.DueIn, next.Took = Unknown, causeForsaken, 0, h.AsOf.Sub(h.CreatedAt)
	}
	return next, true
}

// maxReap is how many records [Operator.Reap] ends at most in one call.
const maxReap = 10_000

// fromTheStart is the cursor of a page that begins where the first one did.
const fromTheStart = "again"

// Reap ends a page of up to limit records whose retention is over. It removes them or, if their
// Rules say so, keeps them as Expired for as long as their keys are to be refused. It never touches
// Running and Unknown ones (I10). It returns how many it ended and the cursor of the next page; the
// rest is as with Sweep, but limit may be up to 10,000. A store that is a [Reaper] removes them
// together, which is one event: Reaped.
func (o *Operator) Reap(ctx context.Context, after string, limit int) (n int, next string, err error) {
	limit = min(cmp.Or(limit, DefaultLimit), maxReap)
	if after == "" || after == fromTheStart {
		after = ""
		if n, err = o.e.reapMany(ctx, limit); n == limit {
			return n, fromTheStart, err
		}
	}
	one, next, failed := o.e.reapEach(ctx, after, limit)
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
			next.Version, next.State, next.DueIn, next.Note = newVersion(), Expired, kept, nil
			return e.swap(ctx, h, next, &Body{}, "reaper")
		}
		call := detach(ctx, e.cfg.StoreTimeout)
		defer call.release()
		err := e.remove(call, h.ID, h.Version)
		if err == nil {
			e.gone(h, "reaper")
		}
		return err == nil, unlessOvertaken(err)
	})
}

// concurrency is how many records are changed at a time. Stores that commit in groups make one
// commit of them. It is low because the writes of requests may share that commit or wait behind it:
// with 16 a Postgres store sweeps half as many again, and requests take noticeably longer.
const concurrency = 8

// eachDue acts on one page of what is due, on several records at a time. A record that is damaged,
// or that another process has changed, is passed over: it says nothing about the others.
func (e *Engine) eachDue(ctx context.Context, q Query, act func(context.Context, *Head) (bool, error)) (n int, next string, err error) {
	heads, next, err := e.due(ctx, q)
	if err != nil {
		return 0, "", err
	}
	var mu sync.Mutex
	acting := walk.NewWorkers(concurrency)
	for i := range heads {
		h := &heads[i]
		if !h.Over() { // an index that lags behind its record ends no life
			continue
		}
		if !acting.Go(ctx, func() {
			done, failed := act(ctx, h)
			mu.Lock()
			defer mu.Unlock()
			if done {
				n++
			}
			if failed != nil && err == nil && !errors.Is(failed, ErrCorrupt) { // a damaged one is for people
				err = failed
			}
		}) {
			acting.Wait()
			return n, "", ctx.Err()
		}
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

// swap writes next over h. It is no error if another write was faster.
func (e *Engine) swap(ctx context.Context, h *Head, next Head, b *Body, by string) (bool, error) {
	call := detach(ctx, e.cfg.StoreTimeout)
	defer call.release()
	got, err := e.replace(call, h.Version, next, b)
	if err == nil {
		e.moved(&got, h.origin(), by)
	}
	return err == nil, unlessOvertaken(err)
}

func unlessOvertaken(err error) error {
	if errors.Is(err, ErrStale) || errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// Unknowns returns a page of records whose outcome is unknown and that are due for a probe, the
// longest due first, and the cursor of the next page, "" after the last. A lapsed run is among them
// once it has been swept.
func (o *Operator) Unknowns(ctx context.Context, after string, limit int) (heads []Head, next string, err error) {
	q := Query{States: []State{Unknown}, After: after, Limit: limit}
	heads, next, err = o.e.due(ctx, q)
	return withoutOwn(&q, heads), next, err // no provider knows of those
}

// Probing takes a due unknown record for one probe: it counts the probe and plans the next one
// after in, so that of any number of reconcilers one asks. It returns false if another was faster.
// With giveUp, which says who gives up and why, the record becomes a dead letter instead, which
// only operators end; a snooze ends with it.
func (o *Operator) Probing(ctx context.Context, h *Head, in time.Duration, giveUp *Note) (Head, bool, error) {
	if err := inBounds.Check(int64(in)); err != nil && giveUp == nil {
		return Head{}, false, fmt.Errorf("stet: Probing: %w", err)
	}
	next := *h
	next.Version, next.DueIn, next.Note = newVersion(), in, giveUp
	if giveUp != nil {
		next.Escalated, next.DueIn = true, Never
		a := next.attention()
		a.Snooze = nil // nothing asks any more: that is news
		next.setAttention(&a)
	} else {
		next.Probes++
	}
	call := detach(ctx, o.e.cfg.StoreTimeout)
	defer call.release()
	got, err := o.e.replace(call, h.Version, next, nil)
	return got, err == nil, unlessOvertaken(err)
}
