package sealstore

import (
	"cmp"
	"context"

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

func (a abilities) Find(ctx context.Context, name string) ([]stet.Head, error) {
	heads, err := a.has.Find(ctx, name)
	return a.s.shown(heads, &stet.Query{}), err
}

// History opens what it can. An entry that it cannot open keeps its sealed evidence and the stored
// names.
func (a abilities) History(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
	if q.ID != (stet.ID{}) {
		q.ID = a.s.names.id(q.ID)
	}
	if q.Scope != "" {
		q.Scope = a.s.names.scope(q.Scope)
	}
	changes, next, err := a.has.History(ctx, q)
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

// Append seals the entry as Replace seals a note. An entry about no record has no names to hash.
func (a abilities) Append(ctx context.Context, c stet.Change) error {
	id := c.ID
	if id != (stet.ID{}) {
		c.ID = a.s.names.id(id)
	}
	c.Note.Evidence = a.s.sealEvidence(c.ID, id, c.Note.Evidence)
	return a.has.Append(ctx, c)
}

func (a abilities) Bind(tx any) (stet.Store, error) {
	bound, err := a.has.Bind(tx)
	if err != nil {
		return nil, err
	}
	return a.s.around(bound), nil
}

// The rest takes no names and shows no records.

func (a abilities) Reap(ctx context.Context, limit int) (int, error) { return a.has.Reap(ctx, limit) }
func (a abilities) Check(ctx context.Context) error                  { return a.has.Check(ctx) }
func (a abilities) LogSize() (int64, error)                          { return a.has.LogSize() }
