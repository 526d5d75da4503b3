package stet

import (
	"context"
	"errors"
	"fmt"
)

// Sweep moves up to limit records whose lease has lapsed to Unknown, as the next request would, and returns how many it
// moved. Records with a recovery point or the re-execute rule are left to a request: they may run again. It looks at up to
// [MaxLimit] records for that, so that a few that are left do not hide the others. Any number of processes may sweep at once.
func (e *Engine) Sweep(ctx context.Context, limit int) (int, error) {
	return e.eachDue(ctx, limit, func(ctx context.Context, h *Head) (bool, error) {
		if mayRunAgain(h) || h.State != Running {
			return false, nil
		}
		return e.swap(ctx, h, lapsed(h), "sweeper")
	}, Running)
}

// Reap ends up to limit records whose retention is over: it removes them or, where their Rules say so, keeps them as
// Expired. It never touches Running and Unknown ones (I10). It returns how many it ended.
func (e *Engine) Reap(ctx context.Context, limit int) (int, error) {
	return e.eachDue(ctx, limit, func(ctx context.Context, h *Head) (bool, error) {
		if h.State == Completed && h.Rules.KeepExpired > 0 {
			next := *h
			next.Version, next.State, next.DueIn = draw(), Expired, h.Rules.KeepExpired
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

func (e *Engine) eachDue(ctx context.Context, limit int, act func(context.Context, *Head) (bool, error), states ...State) (n int, err error) {
	call := detach(ctx, e.cfg.StoreTimeout)
	began := e.Clock()
	heads, err := e.store.Due(call, Query{States: states, Limit: MaxLimit})
	e.called("due", began, err)
	call.release()
	if err != nil {
		return 0, fmt.Errorf("stet: what is due: %w", err)
	}
	for i := range heads {
		if err := ctx.Err(); err != nil || n >= limit {
			return n, err
		}
		done, err := act(ctx, &heads[i])
		if err != nil {
			return n, err
		}
		if done {
			n++
		}
	}
	return n, nil
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
