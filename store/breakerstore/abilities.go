package breakerstore

import (
	"context"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
)

// abilities are those of the inner store that ask it something. Binder is left to the inner store.
func (s *Store) abilities() (set ability.Set) {
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
	return set
}

// pass refuses what is not counted. While the breaker is half-open the probe is to be a short call.
func (s *Store) pass() error {
	if s.State() != Closed {
		return ErrOpen
	}
	return nil
}

type waiter struct {
	s     *Store
	inner stet.Waiter
}

func (w waiter) Wait(ctx context.Context, id stet.ID, seen stet.Version) error {
	if err := w.s.pass(); err != nil {
		return err
	}
	return w.inner.Wait(ctx, id, seen)
}

type lister struct {
	s     *Store
	inner stet.Lister
}

func (l lister) List(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	if err := l.s.pass(); err != nil {
		return nil, "", err
	}
	return l.inner.List(ctx, q)
}

type counter struct {
	s     *Store
	inner stet.Counter
}

func (c counter) Count(ctx context.Context, q stet.Query) (int, error) {
	if err := c.s.pass(); err != nil {
		return 0, err
	}
	return c.inner.Count(ctx, q)
}

type finder struct {
	s     *Store
	inner stet.Finder
}

func (f finder) Find(ctx context.Context, name string) ([]stet.Head, error) {
	if err := f.s.pass(); err != nil {
		return nil, err
	}
	return f.inner.Find(ctx, name)
}

type reaper struct {
	s     *Store
	inner stet.Reaper
}

func (r reaper) Reap(ctx context.Context, limit int) (int, error) {
	if err := r.s.pass(); err != nil {
		return 0, err
	}
	return r.inner.Reap(ctx, limit)
}

type historian struct {
	s     *Store
	inner stet.Historian
}

func (h historian) History(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
	if err := h.s.pass(); err != nil {
		return nil, "", err
	}
	return h.inner.History(ctx, q)
}

func (h historian) Append(ctx context.Context, c stet.Change) error {
	if err := h.s.pass(); err != nil {
		return err
	}
	return h.inner.Append(ctx, c)
}
