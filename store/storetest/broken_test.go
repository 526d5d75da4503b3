package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// broken is a memstore of which some verbs do something else.
type broken struct {
	*memstore.Store
	clock   func() time.Time
	create  func(ctx context.Context, r stet.Record) (stet.Record, error)
	get     func(ctx context.Context, id stet.ID) (stet.Record, error)
	replace func(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error)
	remove  func(ctx context.Context, id stet.ID, prev stet.Version) error
	due     func(ctx context.Context, q stet.Query) ([]stet.Head, string, error)
	list    func(ctx context.Context, q stet.Query) ([]stet.Head, string, error)
	count   func(ctx context.Context, q stet.Query) (int, error)
	wait    func(ctx context.Context, id stet.ID, seen stet.Version) error
	find    func(ctx context.Context, scope stet.Scope, name string) ([]stet.Head, error)
	history func(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error)
	add     func(ctx context.Context, c stet.Change) error
	reap    func(ctx context.Context, limit int) (int, error)
	trim    func(ctx context.Context, age time.Duration, limit int) (int, error)
	erase   func(ctx context.Context, q stet.HistoryQuery) (int, error)
	most    stet.Sizes // 0: no bound
	left    []stet.Head
}

// newBroken returns a memstore, and breaks it.
func newBroken(clock func() time.Time, how func(s *broken)) *broken {
	m := memstore.New(memstore.Config{Clock: clock})
	s := &broken{m, clock, m.Create, m.Get, m.Replace, m.Delete, m.Due, m.List, m.Count, m.Wait, m.Find, m.History, m.Append, m.Reap, m.Trim, m.Erase, stet.Sizes{}, nil}
	how(s)
	return s
}

func brokenBackend(how func(s *broken)) Backend {
	return Backend{Open: func(_ testing.TB, _ string, clock func() time.Time) stet.Store {
		if clock == nil {
			clock = time.Now
		}
		return newBroken(clock, how)
	}}
}

func (s *broken) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	return s.create(ctx, r)
}

func (s *broken) Get(ctx context.Context, id stet.ID) (stet.Record, error) { return s.get(ctx, id) }

func (s *broken) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	return s.replace(ctx, prev, h, b)
}

func (s *broken) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	return s.remove(ctx, id, prev)
}

func (s *broken) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	return s.due(ctx, q)
}

func (s *broken) List(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	return s.list(ctx, q)
}

func (s *broken) Count(ctx context.Context, q stet.Query) (int, error) { return s.count(ctx, q) }

func (s *broken) Wait(ctx context.Context, id stet.ID, seen stet.Version) error {
	return s.wait(ctx, id, seen)
}

func (s *broken) Find(ctx context.Context, scope stet.Scope, name string) ([]stet.Head, error) {
	return s.find(ctx, scope, name)
}

func (s *broken) History(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
	return s.history(ctx, q)
}

func (s *broken) Append(ctx context.Context, c stet.Change) error { return s.add(ctx, c) }

func (s *broken) Reap(ctx context.Context, limit int) (int, error) { return s.reap(ctx, limit) }

func (s *broken) Trim(ctx context.Context, age time.Duration, limit int) (int, error) {
	return s.trim(ctx, age, limit)
}

func (s *broken) Erase(ctx context.Context, q stet.HistoryQuery) (int, error) { return s.erase(ctx, q) }

func (s *broken) Sizes() stet.Sizes { return s.most }

func (s *broken) Left() []stet.Head { return s.left }

// What follows changes what goes in, or what comes out.

func (s *broken) spoilRecords(how func(r *stet.Record)) {
	s.get = func(ctx context.Context, id stet.ID) (stet.Record, error) {
		r, err := s.Store.Get(ctx, id)
		if err == nil {
			r = deep(r)
			how(&r)
		}
		return r, err
	}
}

// deep copies what a memstore shares with its readers.
func deep(r stet.Record) stet.Record {
	if r.Response != nil {
		c := *r.Response
		c.Header = append([]stet.Field(nil), c.Header...)
		r.Response = &c
	}
	return r
}

func (s *broken) spoilHeads(how func(h *stet.Head)) {
	s.create = func(ctx context.Context, r stet.Record) (stet.Record, error) {
		how(&r.Head)
		return s.Store.Create(ctx, r)
	}
	s.replace = func(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
		how(&h)
		return s.Store.Replace(ctx, prev, h, b)
	}
}

func (s *broken) spoilHistory(how func(all []stet.Change) []stet.Change) {
	s.history = func(ctx context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
		page, next, err := s.Store.History(ctx, q)
		return how(page), next, err
	}
}
