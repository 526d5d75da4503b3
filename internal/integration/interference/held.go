package interference

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/maintenance"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/store/storetest"
)

const (
	// holdTime is how long a call waits for a row that stays held.
	holdTime = 500 * time.Millisecond
	// soon is long enough for a machine that is busy, and shorter than a loop that stops at a
	// held row, which is for ever.
	soon   = time.Minute
	others = 20
)

// HeldRows tests that rows which an open transaction hold stop no background loop (A07):
// one that is unknown and due before all of them, and more that have lapsed than a loop moves at
// a time.
func HeldRows(t *testing.T, b storetest.Backend) {
	t.Run("reconciler", func(t *testing.T) {
		e, s := held(t, b, stet.Unknown, 1)
		var mu sync.Mutex
		asked := map[stet.ID]bool{}
		ask := func(_ context.Context, h stet.Head) (reconcile.Finding, error) {
			mu.Lock()
			defer mu.Unlock()
			asked[h.ID] = true
			return reconcile.Finding{}, nil
		}
		keep(t, reconcile.Reconciler{Engine: e, Resolver: reconcile.Resolver(ask), Every: time.Millisecond}.Run)
		within(t, func() (int, bool) {
			mu.Lock()
			defer mu.Unlock()
			return len(asked), len(asked) == others
		})
		due(t, s, stet.Unknown)
	})
	t.Run("sweeper", func(t *testing.T) {
		e, s := held(t, b, stet.Running, 12)
		keep(t, maintenance.Sweeper{Engine: e, Every: time.Millisecond}.Run)
		within(t, func() (int, bool) {
			swept := 0
			for i := range others {
				if r, err := s.Get(t.Context(), named(fmt.Sprint("other-", i))); err == nil && r.State == stet.Unknown {
					swept++
				}
			}
			return swept, swept == others
		})
		due(t, s, stet.Running)
	})
}

func named(key string) stet.ID { return stet.ID{Scope: "shop-1", Key: stet.Key(key)} }

// held is a store with records in state that are due: first n that an open transaction holds, and
// then the others.
func held(t *testing.T, b storetest.Backend, state stet.State, n int) (*stet.Engine, stet.Store) {
	t.Helper()
	s := b.Open(t, t.TempDir(), nil)
	t.Cleanup(func() {
		if c, ok := stet.As[io.Closer](s); ok {
			_ = c.Close()
		}
	})
	e, err := stet.New(s, stet.Config{StoreTimeout: holdTime})
	if err != nil {
		t.Fatal(err)
	}
	made := func(key string) stet.Head {
		t.Helper()
		r, err := s.Create(t.Context(), stet.Record{Head: stet.Head{ID: named(key), Version: stet.Version(n + 1), State: state, Attempt: 1,
			Fingerprint: stet.Fingerprint{Recipe: "1 auto"}, Rules: stet.Rules{Retain: time.Hour}}})
		if err != nil {
			t.Fatal(err)
		}
		return r.Head
	}
	tx, _, rollback := b.Begin(t, s)
	t.Cleanup(func() { _ = rollback() })
	binder, ok := stet.As[stet.Binder](s)
	if !ok {
		t.Fatal("the store joins no transactions")
	}
	in, err := binder.Bind(tx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		h := made(fmt.Sprint("held-", i))
		next := h
		next.Version++
		if _, err := in.Replace(t.Context(), h.Version, next, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range others {
		made(fmt.Sprint("other-", i))
	}
	return e, s
}

// keep runs a loop until the test ends.
func keep(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// within looks until done says that all others were reached.
func within(t *testing.T, done func() (int, bool)) {
	t.Helper()
	end := time.NewTimer(soon)
	defer end.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	began := time.Now()
	for {
		n, ok := done()
		if ok {
			t.Logf("all %d were reached in %v", n, time.Since(began))
			return
		}
		select {
		case <-look.C:
		case <-end.C:
			t.Fatalf("%d of %d were reached in %v", n, others, soon)
		}
	}
}

// due checks that a look at what is due does not wait: it still shows what is held.
func due(t *testing.T, s stet.Store, state stet.State) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if heads, _, err := s.Due(ctx, stet.Query{States: []stet.State{state}, Limit: 1}); err != nil || len(heads) != 1 || heads[0].Key != "held-0" {
		t.Errorf("beside a transaction that holds a row Due shows %d, %v", len(heads), err)
	}
}
