package layers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/cmd/internal/dsn"
	"github.com/stet-dev/stet/store/memstore"
)

// The start does not wait for a cache: not for one that refuses, not for one that says nothing, and
// it is used once it is there.
func TestLazyCache(t *testing.T) {
	for name, away := range map[string]func(ctx context.Context) error{
		"refuses":      func(context.Context) error { return errors.New("refused") },
		"says nothing": func(ctx context.Context) error { return silence(ctx, 20*time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				closed, tries := false, 0
				l := &lazy{}
				began := time.Now()
				err := l.start(func(ctx context.Context) (*dsn.Opened, error) {
					if tries++; tries < 3 {
						return nil, away(ctx)
					}
					return &dsn.Opened{Store: memstore.New(memstore.Config{}), Close: func() error { closed = true; return nil }}, nil
				})
				if took := time.Since(began); err == nil || took > time.Second {
					t.Errorf("%v, after %s", err, took)
				}
				get := func() error { _, err := l.Get(t.Context(), stet.ID{Scope: "s", Key: "k"}); return err }
				if err := get(); !errors.Is(err, errNotThere) {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				if err := get(); !errors.Is(err, stet.ErrNotFound) {
					t.Errorf("it is there, and says %v", err)
				}
				if err := l.stop(); err != nil || !closed || tries != 3 {
					t.Errorf("%v, closed: %v, after %d tries", err, closed, tries)
				}
			})
		})
	}
}

// Once it is there, all of it is: also the cursor of what is due.
func TestLazyCacheIsWhole(t *testing.T) {
	m := memstore.New(memstore.Config{})
	l := &lazy{}
	if _, _, err := l.Due(t.Context(), stet.Query{}); !errors.Is(err, errNotThere) {
		t.Errorf("before it is there: %v", err)
	}
	if err := l.start(func(context.Context) (*dsn.Opened, error) {
		return &dsn.Opened{Store: m, Close: func() error { return nil }}, nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []stet.Key{"a", "b"} {
		r := stet.Record{Head: stet.Head{ID: stet.ID{Key: key}, Version: 1, State: stet.Running}}
		if _, err := m.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	heads, next, err := l.Due(t.Context(), stet.Query{Limit: 1})
	if err != nil || len(heads) != 1 || next == "" {
		t.Errorf("the first page: %d, %q, %v", len(heads), next, err)
	}
	if heads, next, err = l.Due(t.Context(), stet.Query{Limit: 1, After: next}); err != nil || len(heads) != 1 || next != "" || heads[0].Key != "b" {
		t.Errorf("the second page: %d, %q, %v", len(heads), next, err)
	}
	if err := l.stop(); err != nil {
		t.Error(err)
	}
}

// The end does not wait for a cache either.
func TestCacheThatNeverCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lazy{}
		if err := l.start(func(ctx context.Context) (*dsn.Opened, error) { return nil, silence(ctx, time.Hour) }); err == nil {
			t.Error("it is there")
		}
		began := time.Now()
		if err := l.stop(); err != nil || time.Since(began) > 0 {
			t.Errorf("%v, after %s", err, time.Since(began))
		}
	})
}

func silence(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
	return ctx.Err()
}
