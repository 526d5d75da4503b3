package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// Breaking any law makes the laws fail: a store that passes keeps them. The same laws hold for the
// stores that were broken here, before that: a memstore (by its own tests) and the model.
func TestBrokenStoresAreCaught(t *testing.T) {
	memory := Backend{Open: func(_ testing.TB, _ string, clock func() time.Time) stet.Store {
		return memstore.New(memstore.Config{Clock: clock})
	}}
	memory.Durable, memory.Shared = true, true // which it is not
	if beChild(t, memory) {
		return
	}
	caught := func(what, law string, b Backend) {
		t.Run(what+", "+law, func(t *testing.T) {
			t.Parallel()
			got := try(t, lawOf(t, law), b)
			t.Log(got)
			if !got.failed || got.skipped {
				t.Error("it passes")
			}
		})
	}
	covered := map[string]bool{"wrappers": true} // no store can break that: see package faulty
	for _, b := range slices.Concat(breaks, abilityBreaks, pageBreaks, sizeBreaks, roomBreaks) {
		covered[b.law] = true
		caught(b.what, b.law, brokenBackend(b.how))
	}
	for _, b := range slices.Concat(bindBreaks, tamperBreaks) {
		covered[b.law] = true
		caught(b.what, b.law, b.backend)
	}
	for _, b := range identityBreaks {
		covered[b.law] = true
		caught(b.what, b.law, sitedBackend(b.wrong))
	}
	for what, laws := range map[string][]string{
		"what was closed is gone":       {"reopen", "history reopened", "forgotten and reopened", "kill -9"},
		"each handle has its own store": {"two handles", "processes"},
	} {
		for _, law := range laws {
			covered[law] = true
			caught(what, law, memory)
		}
	}
	silent := brokenBackend(func(*broken) {})
	silent.Durable = true
	covered["left"] = true
	caught("what was left is not told", "left", silent)
	guesses := brokenBackend(func(s *broken) { s.left = []stet.Head{running("guessed").Head} })
	guesses.Durable = true
	caught("what runs elsewhere is taken for left", "left", guesses)
	for _, l := range laws() {
		if !covered[l.name] {
			t.Errorf("no store breaks the law %q", l.name)
		}
	}
}

func lawOf(t *testing.T, name string) law {
	all := laws()
	i := slices.IndexFunc(all, func(l law) bool { return l.name == name })
	if i < 0 {
		t.Fatalf("there is no law %q", name)
	}
	return all[i]
}

// backendBreak is a backend whose stores break a law.
type backendBreak struct {
	what, law string
	backend   Backend
}

// bindBreaks are breaks of a store that joins transactions.
var bindBreaks = []backendBreak{
	{"what is written in a transaction is seen at once", "bind", binding(func(m *model, _ stet.Store) stet.Store {
		return modelVerbs{now: m.now, wrong: m.wrong, read: m.seen, write: func(_ context.Context, change func(d *modelData) error) error {
			d := m.copied()
			defer func() { m.put(d) }()
			return change(&d)
		}}
	})},
	{"a commit forgets what was written", "bind", ending(func(_, rollback func() error) (func() error, func() error) { return rollback, rollback })},
	{"a commit forgets what was written", "bind claims", ending(func(_, rollback func() error) (func() error, func() error) { return rollback, rollback })},
	{"notes are lost in transactions", "bind", binding(func(_ *model, s stet.Store) stet.Store {
		return forgetful{s, func(h *stet.Head, b *stet.Body) *stet.Body { h.Note = nil; return b }}
	})},
	{"a rollback keeps what was written", "bind rolled back", ending(func(commit, _ func() error) (func() error, func() error) { return commit, commit })},
	{"a rollback keeps what was written", "bind claims", ending(func(commit, _ func() error) (func() error, func() error) { return commit, commit })},
	{"a nil Body erases in transactions", "bind verbs", binding(func(_ *model, s stet.Store) stet.Store {
		return forgetful{s, func(_ *stet.Head, b *stet.Body) *stet.Body {
			if b == nil {
				b = &stet.Body{}
			}
			return b
		}}
	})},
	{"a refusal spoils the transaction", "bind verbs", binding(spoiling)},
	{"Due has one page in transactions", "bind due", binding(func(_ *model, s stet.Store) stet.Store { return onePage{s} })},
	{"Due does not see the transaction", "bind due", binding(func(m *model, s stet.Store) stet.Store {
		return walksOutside{s, m}
	})},
	{"tags are lost in transactions", "tag in a transaction", binding(func(_ *model, s stet.Store) stet.Store {
		return forgetful{s, func(h *stet.Head, b *stet.Body) *stet.Body { h.Tag = ""; return b }}
	})},
	{"a transaction reads a body for which there is no room", "room bound", binding(func(_ *model, s stet.Store) stet.Store {
		return roomyStore{s}
	})},
	{"any transaction is taken", "bind foreign", modelBackend(func(m *model) stet.Store {
		return &binds{m, func(any) (stet.Store, error) { return m, nil }}
	})},
	{"duplicates wait for the transaction", "bind duplicates", modelBackend(func(m *model) stet.Store {
		write := m.write
		m.write = func(ctx context.Context, change func(d *modelData) error) error {
			return write(context.WithoutCancel(ctx), change)
		}
		return m
	})},
	{"duplicates create beside the transaction", "bind duplicates", modelBackend(func(m *model) stet.Store {
		m.write = func(_ context.Context, change func(d *modelData) error) error {
			d := m.copied()
			defer func() { m.put(d) }()
			return change(&d)
		}
		return m
	})},
	{"no transaction can be undone", "bind undone", binding(func(_ *model, s stet.Store) stet.Store {
		return undoable{s, func(error) error { return stet.ErrTxEnded }}
	})},
	{"nobody looks whether it is the same transaction", "bind ended", modelBackend(func(m *model) stet.Store {
		return &binds{m, func(tx any) (stet.Store, error) {
			t, ok := tx.(*modelTx)
			if !ok {
				return nil, stet.ErrForeignTx
			}
			return undoable{modelVerbs{now: m.now, wrong: m.wrong, read: m.seen, write: func(_ context.Context, change func(d *modelData) error) error {
				if !t.ended {
					return change(&t.data)
				}
				d := m.copied()
				defer func() { m.put(d) }()
				return change(&d)
			}}, func(error) error { return nil }}, nil
		}}
	})},
	{"what has ended is said to be undone", "bind ended", binding(func(_ *model, s stet.Store) stet.Store {
		return undoable{s, func(error) error { return nil }}
	})},
	{"readers wait for the transaction", "bind duplicates", modelBackend(func(m *model) stet.Store { return queued{m} })},
}

// binding returns models that bind transactions to what how makes of the store within them.
func binding(how func(m *model, within stet.Store) stet.Store) Backend {
	return modelBackend(func(m *model) stet.Store {
		return &binds{m, func(tx any) (stet.Store, error) {
			s, err := m.Bind(tx)
			if err != nil {
				return nil, err
			}
			return how(m, s), nil
		}}
	})
}

// ending returns models whose transactions end as how says.
func ending(how func(commit, rollback func() error) (func() error, func() error)) Backend {
	b := modelBackend(func(m *model) stet.Store { return m })
	begin := b.Begin
	b.Begin = func(t testing.TB, s stet.Store) (any, func() error, func() error) {
		tx, commit, rollback := begin(t, s)
		commit, rollback = how(commit, rollback)
		return tx, commit, rollback
	}
	return b
}

// binds is a model that binds transactions otherwise.
type binds struct {
	*model
	bind func(tx any) (stet.Store, error)
}

func (b binds) Bind(tx any) (stet.Store, error) { return b.bind(tx) }

// undoable answers as says says.
type undoable struct {
	stet.Store
	says func(err error) error
}

func (u undoable) Undoable(_ context.Context, cause error) error { return u.says(cause) }

// forgetful replaces what how leaves of it.
type forgetful struct {
	stet.Store
	how func(h *stet.Head, b *stet.Body) *stet.Body
}

func (f forgetful) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	b = f.how(&h, b)
	return f.Store.Replace(ctx, prev, h, b)
}

// onePage has no second page.
type onePage struct{ stet.Store }

func (o onePage) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	heads, _, err := o.Store.Due(ctx, q)
	return heads, "", err
}

// walksOutside looks at what is due outside of its transaction.
type walksOutside struct {
	stet.Store
	outside stet.Store
}

func (w walksOutside) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	return w.outside.Due(ctx, q)
}

// queued reads in its turn.
type queued struct{ *model }

func (q queued) Get(ctx context.Context, id stet.ID) (r stet.Record, err error) {
	select {
	case q.turn <- struct{}{}:
		defer func() { <-q.turn }()
		return q.model.Get(ctx, id)
	case <-ctx.Done():
		return r, ctx.Err()
	}
}
