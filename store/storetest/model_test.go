package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// model is the simplest store that joins transactions: who writes works on a copy of everything,
// one at a time, and puts it in the place of what was there.
type model struct {
	modelVerbs
	turn chan struct{} // full while a caller writes
	mu   sync.Mutex
	data modelData
}

type modelData struct {
	records map[stet.ID]stet.Record
	foreign map[stet.ID]bool // of another format
	history []stet.Change    // oldest first
}

// modelTx is a transaction of a caller's.
type modelTx struct {
	m     *model
	data  modelData
	ended bool // what the session is sent happens by itself
}

// modelVerbs are the verbs on what read returns; write lets one change it.
type modelVerbs struct {
	now   func() time.Time
	read  func() modelData
	write func(ctx context.Context, change func(d *modelData) error) error
	wrong *modelFaults
}

// modelFaults are what may be wrong with a model.
type modelFaults struct {
	anyFormat bool // records of another format are taken for what they look like
	overwrite bool // Replace does not look at the format
	remove    bool // Delete does not
	stampNow  bool // time goes back where the clock did
	dueNow    bool // DueAt is counted from a clock that went back
	bornNow   bool // so is CreatedAt
	endedNow  bool // and CompletedAt
}

func newModel(clock func() time.Time) *model {
	m := &model{turn: make(chan struct{}, 1)}
	m.modelVerbs = modelVerbs{now: clock, read: m.seen, wrong: &modelFaults{}, write: func(ctx context.Context, change func(d *modelData) error) error {
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
	d.records, d.foreign, d.history = maps.Clone(d.records), maps.Clone(d.foreign), slices.Clone(d.history)
	if d.records == nil {
		d.records, d.foreign = map[stet.ID]stet.Record{}, map[stet.ID]bool{}
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
	tx = &modelTx{m: m, data: m.copied()}
	end := func() error { // the turn of what has ended was given back
		if !tx.ended {
			<-m.turn
		}
		return nil
	}
	return tx, func() error {
		if !tx.ended {
			m.put(tx.data)
		}
		return end()
	}, end
}

// send is [Backend].Send.
func (tx *modelTx) send(statement string) {
	if tx.ended {
		return
	}
	if statement == "COMMIT" {
		tx.m.put(tx.data)
	}
	tx.ended = true
	<-tx.m.turn
}

// bound is a model within a transaction.
type bound struct {
	stet.Store
	tx    *modelTx
	began modelData
}

func (b bound) Undoable(context.Context, error) error {
	if b.tx.ended {
		return stet.ErrTxEnded
	}
	b.tx.data = b.began
	return nil
}

func (m *model) Bind(tx any) (stet.Store, error) {
	t, ok := tx.(*modelTx)
	if !ok || t.m != m {
		return nil, stet.ErrForeignTx
	}
	return bound{modelVerbs{now: m.now, wrong: m.wrong, read: func() modelData { return t.data },
		write: func(_ context.Context, change func(d *modelData) error) error {
			if t.ended {
				return stet.ErrTxEnded
			}
			return change(&t.data)
		}}, t, m.copied()}, nil
}

// tamper is [Backend].Tamper.
func (m *model) tamper(id stet.ID, with Tampering) {
	d := m.copied()
	r := d.records[id]
	if with.Format {
		d.foreign[id] = true
	}
	if with.Version != 0 {
		r.Version = with.Version
	}
	r.CreatedAt, r.UpdatedAt, r.DueAt = r.CreatedAt.Add(with.Ahead), r.UpdatedAt.Add(with.Ahead), r.DueAt.Add(with.Ahead)
	d.records[id] = r
	m.put(d)
}

// look finds a record that may be read.
func (v modelVerbs) look(d *modelData, id stet.ID) (r stet.Record, err error) {
	r, ok := d.records[id]
	switch {
	case !ok:
		return r, stet.ErrNotFound
	case d.foreign[id] && !v.wrong.anyFormat:
		return stet.Record{}, stet.ErrCorrupt
	}
	return r, nil
}

func (v modelVerbs) stamp(old, h stet.Head) stet.Head {
	clock := v.now()
	now := clock
	if now.Before(old.UpdatedAt) && !v.wrong.stampNow {
		now = old.UpdatedAt
	}
	at := func(wrong bool) time.Time {
		if wrong {
			return clock
		}
		return now
	}
	h.UpdatedAt, h.AsOf, h.DueAt = now, now, time.Time{}
	if h.CreatedAt.IsZero() {
		h.CreatedAt = at(v.wrong.bornNow)
	}
	if h.DueIn >= 0 {
		h.DueAt = at(v.wrong.dueNow).Add(h.DueIn)
	}
	if h.State == stet.Completed && h.CompletedAt.IsZero() {
		h.CompletedAt = at(v.wrong.endedNow)
	}
	h.DueIn = 0
	return h
}

func (v modelVerbs) Create(ctx context.Context, r stet.Record) (got stet.Record, err error) {
	if got, err = v.Get(ctx, r.ID); !errors.Is(err, stet.ErrNotFound) {
		return got, cmp.Or(err, stet.ErrExists)
	}
	err = v.write(ctx, func(d *modelData) error {
		var err error
		if got, err = v.look(d, r.ID); !errors.Is(err, stet.ErrNotFound) {
			got.Body = got.UpTo(stet.MaxBody(ctx))
			return cmp.Or(err, stet.ErrExists)
		}
		r.Head = v.stamp(stet.Head{}, r.Head)
		got, d.records[r.ID] = r, r
		return nil
	})
	return got, err
}

func (v modelVerbs) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	d := v.read()
	r, err := v.look(&d, id)
	if err == nil {
		r.AsOf, r.Body = v.now(), r.UpTo(stet.MaxBody(ctx))
	}
	return r, err
}

func (v modelVerbs) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (got stet.Head, err error) {
	err = v.write(ctx, func(d *modelData) error {
		r, err := v.look(d, h.ID)
		if v.wrong.overwrite && d.foreign[h.ID] {
			r, err = d.records[h.ID], nil
			delete(d.foreign, h.ID)
		}
		switch got = r.Head; {
		case err != nil:
			return err
		case r.Version != prev:
			return stet.ErrStale
		}
		got = v.stamp(r.Head, h)
		if h.Note != nil {
			d.history = append(d.history, stet.Change{ID: h.ID, Tag: h.Tag, From: r.State, To: h.State, Attempt: h.Attempt, At: got.UpdatedAt, Note: *h.Note})
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
		r, err := v.look(d, id)
		if v.wrong.remove && d.foreign[id] {
			r, err = d.records[id], nil
			delete(d.foreign, id)
		}
		switch {
		case err != nil:
			return err
		case r.Version != prev:
			return stet.ErrStale
		}
		delete(d.records, id)
		return nil
	})
}

func (v modelVerbs) heads(match func(h *stet.Head) bool) (heads []stet.Head) {
	d := v.read()
	for id := range d.records {
		if r, err := v.look(&d, id); err == nil {
			if r.AsOf = v.now(); match(&r.Head) {
				heads = append(heads, r.Head)
			}
		}
	}
	slices.SortFunc(heads, func(a, b stet.Head) int { return cmp.Compare(place(&a), place(&b)) })
	return heads
}

// place sorts heads as they fall due, and those of one instant somehow. It is the model's cursor.
func place(h *stet.Head) string {
	return fmt.Sprintf("%020d %q %q", h.DueAt.UnixMicro(), string(h.Scope), string(h.Key))
}

func (v modelVerbs) Due(_ context.Context, q stet.Query) ([]stet.Head, string, error) {
	if q.After != "" {
		var at int64
		var scope, key string
		if _, err := fmt.Sscanf(q.After, "%d %q %q", &at, &scope, &key); err != nil {
			return nil, "", err
		}
	}
	heads := v.heads(func(h *stet.Head) bool { return h.Over() && q.Matches(h) && place(h) > q.After })
	if n := q.Bound(); len(heads) > n {
		return heads[:n], place(&heads[n-1]), nil
	}
	return heads, "", nil
}

// List has one page.
func (v modelVerbs) List(_ context.Context, q stet.Query) ([]stet.Head, string, error) {
	return v.heads(q.Matches), "", nil
}

func (v modelVerbs) Find(_ context.Context, scope stet.Scope, name string) ([]stet.Head, error) {
	return v.heads(func(h *stet.Head) bool {
		return (h.DownstreamKey == name || h.DownstreamID == name) && (scope == "" || h.Scope == scope)
	}), nil
}

func (v modelVerbs) History(_ context.Context, q stet.HistoryQuery) ([]stet.Change, string, error) {
	newest := slices.Clone(v.read().history)
	slices.Reverse(newest)
	return slices.DeleteFunc(newest, func(c stet.Change) bool { return !q.Matches(&c) }), "", nil
}

func (v modelVerbs) Append(ctx context.Context, c stet.Change) error {
	return v.write(ctx, func(d *modelData) error {
		c.At = v.now()
		d.history = append(d.history, c)
		return nil
	})
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
		Send: func(_ testing.TB, tx any, statement string) { tx.(*modelTx).send(statement) },
		Tamper: func(_ testing.TB, s stet.Store, id stet.ID, with Tampering) {
			mu.Lock()
			m := models[s]
			mu.Unlock()
			m.tamper(id, with)
		},
	}
}

// These laws hold for the model: what is made of it fails for what was broken, not for the model.
func TestModelKeepsTheLaws(t *testing.T) {
	for _, l := range slices.Concat(bindLaws, tamperLaws, pageLaws, abilityLaws[len(abilityLaws)-1:]) {
		if got := try(t, l, modelBackend(func(m *model) stet.Store { return m })); got.failed || got.skipped {
			t.Errorf("%s: %s", l.name, got)
		}
	}
}
