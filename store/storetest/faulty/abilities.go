package faulty

import (
	"context"

	"github.com/stet-dev/stet"
)

// Unwrap lets [stet.As] find abilities: those known here fail as the verbs do, all others are the inner store's own. A type
// has its methods or has them not, so there is one for each set of abilities.
func (s *Store) Unwrap() stet.Store {
	l, lists := stet.As[stet.Lister](s.inner)
	c, counts := stet.As[stet.Counter](s.inner)
	w, waits := stet.As[stet.Waiter](s.inner)
	t := through{s}
	switch {
	case lists && counts && waits:
		return struct {
			through
			lister
			counter
			waiter
		}{t, lister{s, l}, counter{s, c}, waiter{s, w}}
	case lists && counts:
		return struct {
			through
			lister
			counter
		}{t, lister{s, l}, counter{s, c}}
	case lists && waits:
		return struct {
			through
			lister
			waiter
		}{t, lister{s, l}, waiter{s, w}}
	case counts && waits:
		return struct {
			through
			counter
			waiter
		}{t, counter{s, c}, waiter{s, w}}
	case lists:
		return struct {
			through
			lister
		}{t, lister{s, l}}
	case counts:
		return struct {
			through
			counter
		}{t, counter{s, c}}
	case waits:
		return struct {
			through
			waiter
		}{t, waiter{s, w}}
	}
	return t
}

// through is the store again, one step further in.
type through struct{ *Store }

func (t through) Unwrap() stet.Store { return t.inner }

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

type waiter struct {
	s     *Store
	inner stet.Waiter
}

func (w waiter) Wait(ctx context.Context, id stet.ID, seen stet.Version) error {
	return w.s.call(ctx, id, 0, func() error { return w.inner.Wait(ctx, id, seen) })
}
