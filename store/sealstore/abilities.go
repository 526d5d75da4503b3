package sealstore

import (
	"cmp"
	"context"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
)

// abilities are those of the inner store, sealing and opening as the verbs do.
type abilities struct {
	s   *Store
	has ability.Set
}

var _ ability.All = abilities{}

func (a abilities) Wait(ctx context.Context, id stet.ID, seen stet.Version) error {
	return a.has.Wait(ctx, a.s.names.id(id), seen)
}

func (a abilities) List(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	heads, next, err := a.has.List(ctx, a.s.query(q))
	return a.s.shown(heads, &q), next, err
}

func (a abilities) Count(ctx context.Context, q stet.Query) (n int, err error) {
	if !a.s.sifts(&q) || a.has.Lister == nil {
		return a.has.Count(ctx, a.s.query(q))
	}
	enough := cmp.Or(max(q.Limit, 0), stet.DefaultLimit)
	for q.Limit, q.After = stet.MaxLimit, ""; ; {
		heads, next, err := a.List(ctx, q)
		if n += len(heads); err != nil || next == "" || n >= enough {
			return n, err
		}
		q.After = next
	}
}

func (a abilities) Find(ctx context.Context, scope stet.Scope, name string) ([]stet.Head, error) {
	if scope != "" {
		scope = a.s.names.scope(scope)
	}
	heads, err := a.has.Find(ctx, scope, name)
	return a.s.shown(heads, &stet.Query{}), err
}

// History opens what it can. An entry that it cannot open keeps its sealed evidence and the stored
// names.
func (a abilities) History(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
	changes, next, err := a.has.History(ctx, a.s.historyQuery(q))
	if changes == nil {
		return nil, next, err
	}
	open := make([]stet.Change, len(changes))
	for i, c := range changes {
		if id, note, err := a.s.openNote(c.ID, c.Note); err == nil {
			c.ID, c.Note = id, note
		}
		open[i] = c
	}
	return open, next, err
}

// historyQuery has the stored names.
func (s *Store) historyQuery(q stet.HistoryQuery) stet.HistoryQuery {
	if q.ID != (stet.ID{}) {
		q.ID = s.names.id(q.ID)
	}
	if q.Scope != "" {
		q.Scope = s.names.scope(q.Scope)
	}
	return q
}

// Erase has the stored names erased, and what was sealed with them.
func (a abilities) Erase(ctx context.Context, q stet.HistoryQuery) (int, error) {
	return a.has.Erase(ctx, a.s.historyQuery(q))
}

// Append seals the entry as Replace seals a note. An entry about no record has no names to hash.
func (a abilities) Append(ctx context.Context, c stet.Change) error {
	id := c.ID
	if id != (stet.ID{}) {
		c.ID = a.s.names.id(id)
	}
	c.Note.Evidence = a.s.sealEvidence(c.ID, id, c.Note.Evidence)
	return a.has.Append(ctx, c)
}

func (a abilities) Left() []stet.Head { return a.s.shown(a.has.Left(), &stet.Query{}) }

func (a abilities) Bind(tx any) (stet.Store, error) {
	bound, err := a.has.Bind(tx)
	if err != nil {
		return nil, err
	}
	return a.s.around(bound), nil
}

// The rest takes no names and shows no records.

func (a abilities) Trim(ctx context.Context, age time.Duration, limit int) (int, error) {
	return a.has.Trim(ctx, age, limit)
}
func (a abilities) Reap(ctx context.Context, limit int) (int, error) { return a.has.Reap(ctx, limit) }
func (a abilities) Undoable(ctx context.Context, cause error) error {
	return a.has.Undoable(ctx, cause)
}
func (a abilities) Check(ctx context.Context) error { return a.has.Check(ctx) }

// Sizes leaves room for what sealing adds. Names that are hashed are short, whatever they were.
func (a abilities) Sizes() stet.Sizes {
	const envelope = 1 << 10
	z := a.has.Sizes()
	if z.Body > 0 {
		z.Body = max(z.Body-envelope, 1)
	}
	if a.s.names != nil {
		z.Scope, z.Key, z.Names = 0, 0, 0
	}
	return z
}

func (a abilities) LogSize() (int64, error) { return a.has.LogSize() }

func (a abilities) Identity(ctx context.Context) (now, known stet.Identity, err error) {
	return a.has.Identity(ctx)
}
func (a abilities) Know(known stet.Identity)                          { a.has.Know(known) }
func (a abilities) Accept(ctx context.Context) (stet.Identity, error) { return a.has.Accept(ctx) }
