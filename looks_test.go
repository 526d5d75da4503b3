package stet_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// hung is a store that answers no question of people.
type hung struct{ stet.Store }

func (hung) List(ctx context.Context, _ stet.Query) ([]stet.Head, string, error) {
	<-ctx.Done()
	return nil, "", ctx.Err()
}

func (hung) Count(ctx context.Context, _ stet.Query) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func (hung) Find(ctx context.Context, _ stet.Scope, _ string) ([]stet.Head, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (hung) History(ctx context.Context, _ stet.HistoryQuery) ([]stet.Change, string, error) {
	<-ctx.Done()
	return nil, "", ctx.Err()
}

func (hung) Append(ctx context.Context, _ stet.Change) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestLooksHaveADeadline(t *testing.T) { // A20
	synctest.Test(t, func(t *testing.T) {
		var seen []stet.Event
		observe := func(ev stet.Event) { seen = append(seen, ev) }
		e, err := stet.New(hung{memstore.New(memstore.Config{})}, stet.Config{Observe: observe})
		if err != nil {
			t.Fatal(err)
		}
		for op, look := range map[string]func(context.Context) error{
			"list":  func(ctx context.Context) error { _, _, err := e.Operator().List(ctx, stet.Query{}); return err },
			"count": func(ctx context.Context) error { _, err := e.Operator().Count(ctx, stet.Query{}); return err },
			"find":  func(ctx context.Context) error { _, err := e.Operator().Find(ctx, "", "ch_1"); return err },
			"history": func(ctx context.Context) error {
				_, _, err := e.Operator().History(ctx, stet.HistoryQuery{})
				return err
			},
		} {
			seen = nil
			began := time.Now()
			const limit = stet.DefaultStoreTimeout
			if err := look(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != limit {
				t.Errorf("%s: %v after %s", op, err, time.Since(began))
			}
			if len(seen) != 1 || seen[0].Kind != stet.StoreCall || seen[0].Op != op || seen[0].Took != limit {
				t.Errorf("%s: the events are %+v", op, seen)
			}
			gone, leave := context.WithCancel(t.Context())
			leave()
			seen = nil
			if err := look(gone); !errors.Is(err, context.Canceled) || len(seen) != 1 || seen[0].Err != nil {
				t.Errorf("%s: who asked has gone: %v, and the store is blamed by %+v", op, err, seen)
			}
		}
	})
}
