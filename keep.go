package stet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Sweep moves up to limit records whose lease has lapsed to Unknown, as the next request would, and returns how many it
// moved; 0 means [DefaultLimit]. Records with a recovery point or the re-execute rule are left to a request, since they may run
// again, and records that cannot be read are left to people; it sees past [MaxLimit] of those at most. Any number of processes
// may sweep at once.
func (e *Engine) Sweep(ctx context.Context, limit int) (int, error) {
	return e.eachDue(ctx, limit, func(ctx context.Context, h *Head) (bool, error) {
		if mayRunAgain(h) || h.State != Running {
			return false, nil
		}
		return e.swap(ctx, h, lapsed(h), "sweeper")
	}, Running)
}

// MaxReap is the most [Engine.Reap] ends in one call, where the store is a [Reaper].
const MaxReap = 10_000

// Reap ends up to limit records whose retention is over: it removes them or, where their Rules say so, keeps them as
// Expired for as long as judge would refuse them. It never touches Running and Unknown ones (I10). It returns how many it
// ended, [MaxReap] at most; the rest is as with Sweep. A store that is a [Reaper] removes them together, which is one event: Reaped.
func (e *Engine) Reap(ctx context.Context, limit int) (int, error) {
	limit = min(cmp.Or(limit, DefaultLimit), MaxReap)
	n, err := e.reapMany(ctx, limit)
	if err != nil || n == limit {
		return n, err
	}
	ended, err := e.reapEach(ctx, limit-n)
	return n + ended, err
}

// reapMany has the store remove what it can remove by itself.
func (e *Engine) reapMany(ctx context.Context, limit int) (int, error) {
	r, ok := As[Reaper](e.store)
	if !ok {
		return 0, nil
	}
	call := detach(ctx, e.cfg.StoreTimeout)
	defer call.release()
	began := e.Clock()
	n, err := r.Reap(call, limit)
	e.called("reap", began, err)
	if n > 0 && e.cfg.Observe != nil {
		e.cfg.Observe(Event{Kind: Reaped, By: "reaper", Count: n})
	}
	if err != nil {
		return n, fmt.Errorf("stet: reaping: %w", err)
	}
	return n, nil
}

// reapEach ends one record after the other.
func (e *Engine) reapEach(ctx context.Context, limit int) (int, error) {
	return e.eachDue(ctx, limit, func(ctx context.Context, h *Head) (bool, error) {
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
	}, Completed, Retryable, Expired)
}

// abreast is how many records are moved at a time. Stores that write groups make one commit of them; it is few, since what a
// request writes may share that commit, or wait behind it: with 16 a Postgres sweeps half as many again, and requests notice.
const abreast = 8

// eachDue acts on what is due, on abreast records at a time, until it has moved limit records. What it leaves stays due, and in
// front: it looks past that, as far as one query goes.
func (e *Engine) eachDue(ctx context.Context, limit int, act func(context.Context, *Head) (bool, error), states ...State) (n int, err error) {
	limit = min(cmp.Or(limit, DefaultLimit), MaxLimit)
	for ask := limit; ; ask = min(2*ask, MaxLimit) {
		heads, err := e.due(ctx, Query{States: states, Limit: ask})
		if err != nil {
			return n, err
		}
		before, found := n, len(heads)
		heads = slices.DeleteFunc(heads, func(h Head) bool { return !h.Over() }) // an index that lags behind its record ends no life
		for len(heads) > 0 {
			if err := ctx.Err(); err != nil || n == limit {
				return n, err
			}
			k := min(len(heads), limit-n, abreast)
			moved, err := together(ctx, heads[:k], act)
			if n += moved; err != nil {
				return n, err
			}
			heads = heads[k:]
		}
		if n == limit || found < ask || ask == MaxLimit && n == before {
			return n, nil
		}
	}
}

// together acts on all of heads at once, and returns how many it moved. A record that cannot be read says nothing about the others.
func together(ctx context.Context, heads []Head, act func(context.Context, *Head) (bool, error)) (moved int, err error) {
	var mu sync.Mutex
	var acting sync.WaitGroup
	for i := range heads {
		acting.Go(func() {
			done, failed := act(ctx, &heads[i])
			mu.Lock()
			defer mu.Unlock()
			if done {
				moved++
			}
			if failed != nil && !errors.Is(failed, ErrCorrupt) {
				err = failed
			}
		})
	}
	acting.Wait()
	return moved, err
}

func (e *Engine) due(ctx context.Context, q Query) ([]Head, error) {
	call := detach(ctx, e.cfg.StoreTimeout)
	defer call.release()
	began := e.Clock()
	heads, err := e.store.Due(call, q)
	e.called("due", began, err)
	if err != nil {
		return nil, fmt.Errorf("stet: what is due: %w", err)
	}
	return heads, nil
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

// List pages through records; see [Lister]. It changes nothing.
func (e *Engine) List(ctx context.Context, q Query) (heads []Head, next string, err error) {
	l, ok := As[Lister](e.store)
	if !ok {
		return nil, "", ErrNoList
	}
	return l.List(ctx, q)
}

// ErrNoCount: the store cannot count its records.
var ErrNoCount = errors.New("stet: this store cannot count its records")

// Count counts records; see [Counter]. It changes nothing.
func (e *Engine) Count(ctx context.Context, q Query) (int, error) {
	c, ok := As[Counter](e.store)
	if !ok {
		return 0, ErrNoCount
	}
	call := detach(ctx, e.cfg.StoreTimeout)
	defer call.release()
	began := e.Clock()
	n, err := c.Count(call, q)
	e.called("count", began, err)
	return n, err
}
