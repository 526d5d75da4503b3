package storetest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// model is the simplest store that joins transactions: who writes works on a copy of everything, one at a time, and puts it in
// the place of what was there.
type model struct {
	modelVerbs
	turn chan struct{} // full: somebody writes
	mu   sync.Mutex
	data modelData
}

type modelData struct {
	records map[stet.ID]stet.Record
	history []stet.Change // oldest first
}

// modelTx is a transaction of a caller's.
type modelTx struct {
	m    *model
	data modelData
}

// modelVerbs are the verbs on what read returns; write lets one change it.
type modelVerbs struct {
	now   func() time.Time
	read  func() modelData
	write func(ctx context.Context, change func(d *modelData) error) error
}

func newModel(clock func() time.Time) *model {
	m := &model{turn: make(chan struct{}, 1)}
	m.modelVerbs = modelVerbs{clock, m.seen, func(ctx context.Context, change func(d *modelData) error) error {
		select {
		case m.turn <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-m.turn }()
		d := m.copied()
		if err := change(&d); err != nil {
			return err
		}
		m.put(d)
		return nil
	}}
	return m
}

func (m *model) seen() modelData {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.data
}

func (m *model) copied() modelData {
	d := m.seen()
	d.records, d.history = maps.Clone(d.records), slices.Clone(d.history)
	if d.records == nil {
		d.records = map[stet.ID]stet.Record{}
	}
	return d
}

func (m *model) put(d modelData) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data = d
}

func (m *model) begin() (tx *modelTx, commit, rollback func() error) {
	m.turn <- struct{}{}
	tx = &modelTx{m, m.copied()}
	return tx, func() error { m.put(tx.data); <-m.turn; return nil }, func() error { <-m.turn; return nil }
}

func (m *model) Bind(tx any) (stet.Store, error) {
	t, ok := tx.(*modelTx)
	if !ok || t.m != m {
		return nil, stet.ErrForeignTx
	}
	return modelVerbs{m.now, func() modelData { return t.data },
		func(_ context.Context, change func(d *modelData) error) error { return change(&t.data) }}, nil
}

func (v modelVerbs) stamp(h stet.Head) stet.Head {
	now := v.now()
	h.UpdatedAt, h.AsOf, h.DueAt = now, now, time.Time{}
	if h.CreatedAt.IsZero() {
		h.CreatedAt = now
	}
	if h.DueIn >= 0 {
		h.DueAt = now.Add(h.DueIn)
	}
	if h.State == stet.Completed && h.CompletedAt.IsZero() {
		h.CompletedAt = now
	}
	h.DueIn = 0
	return h
}

func (v modelVerbs) Create(ctx context.Context, r stet.Record) (got stet.Record, err error) {
	if got, err = v.Get(ctx, r.ID); err == nil {
		return got, stet.ErrExists
	}
	err = v.write(ctx, func(d *modelData) error {
		var taken bool
		if got, taken = d.records[r.ID]; taken {
			return stet.ErrExists
		}
		r.Head = v.stamp(r.Head)
		got, d.records[r.ID] = r, r
		return nil
	})
	return got, err
}

func (v modelVerbs) Get(_ context.Context, id stet.ID) (stet.Record, error) {
	r, ok := v.read().records[id]
	if !ok {
		return r, stet.ErrNotFound
	}
	r.AsOf = v.now()
	return r, nil
}

func (v modelVerbs) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (got stet.Head, err error) {
	err = v.write(ctx, func(d *modelData) error {
		r, ok := d.records[h.ID]
		if got = r.Head; !ok {
			return stet.ErrNotFound
		}
		if r.Version != prev {
			return stet.ErrStale
		}
		got = v.stamp(h)
		if h.Note != nil {
			d.history = append(d.history, stet.Change{ID: h.ID, From: r.State, To: h.State, Attempt: h.Attempt, At: got.UpdatedAt, Note: *h.Note})
		}
		if r.Head = got; b != nil {
			r.Body = *b
		}
		d.records[h.ID] = r
		return nil
	})
	return got, err
}

func (v modelVerbs) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	return v.write(ctx, func(d *modelData) error {
		r, ok := d.records[id]
		if !ok {
			return stet.ErrNotFound
		}
		if r.Version != prev {
			return stet.ErrStale
		}
		delete(d.records, id)
		return nil
	})
}

func (v modelVerbs) heads(match func(h *stet.Head) bool) (heads []stet.Head) {
	for _, r := range v.read().records {
		if r.AsOf = v.now(); match(&r.Head) {
			heads = append(heads, r.Head)
		}
	}
	return heads
}

func (v modelVerbs) Due(context.Context, stet.Query) ([]stet.Head, error) {
	return v.heads((*stet.Head).Over), nil
}

func (v modelVerbs) Find(_ context.Context, name string) ([]stet.Head, error) {
	return v.heads(func(h *stet.Head) bool { return h.DownstreamKey == name || h.DownstreamID == name }), nil
}

func (v modelVerbs) History(context.Context, stet.HistoryQuery) ([]stet.Change, string, error) {
	newest := slices.Clone(v.read().history)
	slices.Reverse(newest)
	return newest, "", nil
}

// modelBackend opens models that wrap makes something of.
func modelBackend(wrap func(m *model) stet.Store) Backend {
	var mu sync.Mutex
	models := map[stet.Store]*model{}
	return Backend{
		Open: func(_ testing.TB, _ string, clock func() time.Time) stet.Store {
			m := newModel(clock)
			s := wrap(m)
			mu.Lock()
			defer mu.Unlock()
			models[s] = m
			return s
		},
		Begin: func(_ testing.TB, s stet.Store) (any, func() error, func() error) {
			mu.Lock()
			m := models[s]
			mu.Unlock()
			return m.begin()
		},
	}
}

// The laws about transactions hold for the model: what is made of it below fails for what was broken, not for the model.
func TestModelKeepsTheLawsAboutTransactions(t *testing.T) {
	for _, l := range append(slices.Clone(bindLaws), abilityLaws[len(abilityLaws)-1]) {
		if got := try(t, l, modelBackend(func(m *model) stet.Store { return m })); got.failed || got.skipped {
			t.Errorf("%s: %s", l.name, got)
		}
	}
}
