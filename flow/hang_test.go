package flow_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/store/memstore"
)

// A phase that ignores its context costs its own record alone: the Completer goes on with the
// others, and ends.
func TestAPhaseThatHangsDoesNotStopTheCompleter(t *testing.T) { // K07
	synctest.Test(t, func(t *testing.T) {
		const records = 20
		e := engineOn(t, memstore.New(memstore.Config{}))
		release := make(chan struct{})
		defer close(release)
		again, hung := false, atomic.Int64{}
		f := build(t, flow.Config[counts]{Engine: e, Backoff: time.Second},
			flow.Foreign("call", func(ctx context.Context, _ *flow.Call, s *counts) error {
				if !again {
					return flow.RetryLater(errDown)
				}
				if stet.ClaimFrom(ctx).ID().Key == "k3" {
					hung.Add(1)
					<-release
				}
				s.N++
				return nil
			}))
		id := func(i int) stet.ID { return stet.ID{Scope: "s", Key: stet.Key(fmt.Sprint("k", i))} }
		for i := range records {
			if _, err := f.Do(t.Context(), stet.Request{ID: id(i)}, counts{}); !errors.Is(err, flow.ErrSuspended) {
				t.Fatal(err)
			}
		}
		again = true
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		began := time.Now()
		if err := (flow.Completer{Engine: e, Flows: []flow.Resumer{f}, Workers: 1}).Run(ctx); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 11*time.Minute {
			t.Errorf("Run ended after %s", took)
		}
		for i := range records {
			r, err := e.Get(t.Context(), id(i))
			if err != nil || (r.State == stet.Completed) != (i != 3) {
				t.Errorf("record %d is %v, %v", i, r.State, err)
			}
		}
		if n := hung.Load(); n != 1 {
			t.Errorf("the phase that hangs was called %d times", n)
		}
		if err := e.Drain(t.Context()); !errors.Is(err, stet.ErrHangs) {
			t.Errorf("Drain says %v", err)
		}
	})
}
