package faulty

import (
	"context"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
)

// Unwrap lets [stet.As] find abilities: those known here fail as the verbs do, all others are the inner store's own.
func (s *Store) Unwrap() stet.Store {
	var set ability.Set
	if w, ok := stet.As[stet.Waiter](s.inner); ok {
		set.Waiter = waiter{s, w}
	}
	if l, ok := stet.As[stet.Lister](s.inner); ok {
		set.Lister = lister{s, l}
	}
	if c, ok := stet.As[stet.Counter](s.inner); ok {
		set.Counter = counter{s, c}
	}
	if f, ok := stet.As[stet.Finder](s.inner); ok {
		set.Finder = finder{s, f}
	}
	if h, ok := stet.As[stet.Historian](s.inner); ok {
		set.Historian = historian{s, h}
	}
	if r, ok := stet.As[stet.Reaper](s.inner); ok {
		set.Reaper = reaper{s, r}
	}
	if b, ok := stet.As[stet.Binder](s.inner); ok {
		set.Binder = binder{s, b}
	}
	return set.Chain(s, s.inner)
}

type waiter struct {
	s     *Store
	inner stet.Waiter
}

func (w waiter) Wait(ctx context.Context, id stet.ID, seen stet.Version) error {
	return w.s.call(ctx, id, 0, func() error { return w.inner.Wait(ctx, id, seen) })
}

type lister struct {
	s     *Store
	inner stet.Lister
}

func (l lister) List(ctx context.Context, q stet.Query) (heads []stet.Head, next string, err error) {
	err = l.s.call(ctx, stet.ID{}, 0, func() (err error) { heads, next, err = l.inner.List(ctx, q); return err })
	if err != nil {
		return nil, "", err
	}
	return heads, next, nil
}

type counter struct {
	s     *Store
	inner stet.Counter
}

func (c counter) Count(ctx context.Context, q stet.Query) (n int, err error) {
	err = c.s.call(ctx, stet.ID{}, 0, func() (err error) { n, err = c.inner.Count(ctx, q); return err })
	if err != nil {
		return 0, err
	}
	return n, nil
}

type finder struct {
	s     *Store
	inner stet.Finder
}

func (f finder) Find(ctx context.Context, name string) (heads []stet.Head, err error) {
	err = f.s.call(ctx, stet.ID{}, 0, func() (err error) { heads, err = f.inner.Find(ctx, name); return err })
	if err != nil {
		return nil, err
	}
	return heads, nil
}

type historian struct {
	s     *Store
	inner stet.Historian
}

func (h historian) History(ctx context.Context, q stet.HistoryQuery) (changes []stet.Change, next string, err error) {
	err = h.s.call(ctx, q.ID, 0, func() (err error) { changes, next, err = h.inner.History(ctx, q); return err })
	if err != nil {
		return nil, "", err
	}
	return changes, next, nil
}

// Append is a write of no state.
func (h historian) Append(ctx context.Context, c stet.Change) error {
	return h.s.call(ctx, c.ID, 0, func() error { return h.inner.Append(ctx, c) })
}

type reaper struct {
	s     *Store
	inner stet.Reaper
}

// Reap removes nothing while there are corrupt records: it could not tell them from others.
func (r reaper) Reap(ctx context.Context, limit int) (n int, err error) {
	if r.s.damaged() {
		return 0, nil
	}
	err = r.s.call(ctx, stet.ID{}, 0, func() (err error) { n, err = r.inner.Reap(ctx, limit); return err })
	if err != nil {
		return 0, err
	}
	return n, nil
}

type binder struct {
	s     *Store
	inner stet.Binder
}

// Bind wraps what it binds, so that the verbs fail within a transaction as they do outside. A commit is the caller's: to lose
// the reply to one, see to it there.
func (b binder) Bind(tx any) (stet.Store, error) {
	bound, err := b.inner.Bind(tx)
	if err != nil {
		return nil, err
	}
	return &Store{inner: bound, faults: b.s.faults}, nil
}
