package sealstore

import (
	"cmp"
	"context"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
)

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
		set.Reaper = r // it is told no names and shown none
	}
	if c, ok := stet.As[stet.Checker](s.inner); ok {
		set.Checker = c
	}
	if l, ok := stet.As[ability.LogSizer](s.inner); ok {
		set.LogSizer = l
	}
	if b, ok := stet.As[stet.Binder](s.inner); ok {
		set.Binder = binder{s, b}
	}
	return set
}

type waiter struct {
	s     *Store
	inner stet.Waiter
}

func (w waiter) Wait(ctx context.Context, id stet.ID, seen stet.Version) error {
	return w.inner.Wait(ctx, w.s.names.id(id), seen)
}

type lister struct {
	s     *Store
	inner stet.Lister
}

func (l lister) List(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	heads, next, err := l.inner.List(ctx, l.s.query(q))
	return l.s.shown(heads, &q), next, err
}

type counter struct {
	s     *Store
	inner stet.Counter
}

func (c counter) Count(ctx context.Context, q stet.Query) (n int, err error) {
	l, lists := stet.As[stet.Lister](c.s.inner)
	if !c.s.sifts(&q) || !lists {
		return c.inner.Count(ctx, c.s.query(q))
	}
	enough := cmp.Or(max(q.Limit, 0), stet.DefaultLimit)
	for q.Limit, q.After = stet.MaxLimit, ""; ; {
		heads, next, err := lister{c.s, l}.List(ctx, q)
		if n += len(heads); err != nil || next == "" || n >= enough {
			return n, err
		}
		q.After = next
	}
}

type finder struct {
	s     *Store
	inner stet.Finder
}

func (f finder) Find(ctx context.Context, name string) ([]stet.Head, error) {
	heads, err := f.inner.Find(ctx, name)
	return f.s.shown(heads, &stet.Query{}), err
}

type historian struct {
	s     *Store
	inner stet.Historian
}

// History opens what can be opened; an entry that cannot keeps its evidence sealed, and the names that are stored.
func (h historian) History(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
	if q.ID != (stet.ID{}) {
		q.ID = h.s.names.id(q.ID)
	}
	if q.Scope != "" {
		q.Scope = h.s.names.scope(q.Scope)
	}
	changes, next, err := h.inner.History(ctx, q)
	if changes == nil {
		return nil, next, err
	}
	open := make([]stet.Change, len(changes))
	for i, c := range changes {
		if id, note, err := h.s.openNote(c.ID, c.Note); err == nil {
			c.ID, c.Note = id, note
		}
		open[i] = c
	}
	return open, next, err
}

// Append seals the entry as the note of a write is sealed. One about no record has no names to hash.
func (h historian) Append(ctx context.Context, c stet.Change) error {
	id := c.ID
	if id != (stet.ID{}) {
		c.ID = h.s.names.id(id)
	}
	c.Note.Evidence = h.s.sealEvidence(c.ID, id, c.Note.Evidence)
	return h.inner.Append(ctx, c)
}

type binder struct {
	s     *Store
	inner stet.Binder
}

func (b binder) Bind(tx any) (stet.Store, error) {
	bound, err := b.inner.Bind(tx)
	if err != nil {
		return nil, err
	}
	return b.s.around(bound), nil
}
