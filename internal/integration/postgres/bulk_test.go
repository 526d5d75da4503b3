package postgres

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/bulk"
	"github.com/stet-dev/stet/store/pgxstore"
	"github.com/stet-dev/stet/store/storetest/faulty"
)

// Two gateways share a job: the one that works on it is cut off from the server in the middle, and
// the other ends it. Each record is changed once, and counted once.
func TestBulkJobChangesHands(t *testing.T) {
	const n = 3 * 256 // pages of a job
	address := database(t, address(t), t.Name())
	desk := func(s stet.Store, observe func(stet.Event)) (*stet.Engine, *bulk.Jobs) {
		e, err := stet.New(s, stet.Config{Policy: stet.Policy{Lease: 3 * time.Second}, StoreTimeout: 20 * time.Second, Observe: observe})
		if err != nil {
			t.Fatal(err)
		}
		return e, bulk.New(e)
	}
	cut := faulty.New(opened(t, address, pgxstore.Config{}), 1)
	var moved atomic.Int64
	_, first := desk(cut, func(e stet.Event) {
		if e.Kind == stet.Transition && e.To == stet.Retryable && moved.Add(1) == n/2 {
			cut.Down()
		}
	})
	second, other := desk(opened(t, address, pgxstore.Config{}), nil)
	var making sync.WaitGroup
	for w := range 16 {
		making.Go(func() {
			for i := w; i < n; i += 16 {
				r := running(fmt.Sprintf("bulk-%05d", i))
				r.State, r.DueIn = stet.Unknown, stet.Never
				if _, err := second.Store().Create(t.Context(), r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	making.Wait()
	job, err := first.Start(t.Context(), bulk.Order{Action: bulk.Release, Query: stet.Query{States: []stet.State{stet.Unknown}}, Expect: n, Now: true,
		Note: stet.Note{Who: "test", Why: "to see it change hands"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var loops sync.WaitGroup
	defer loops.Wait()
	defer stop()
	loops.Go(func() { _ = first.Run(ctx) })
	await := func(is func(*bulk.Job) bool) bulk.Job {
		t.Helper()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(time.Minute); time.Now().Before(end); <-tick.C {
			if j, err := other.Get(t.Context(), job.ID); err == nil && is(&j) {
				return j
			}
		}
		t.Fatal("not within a minute")
		panic("unreachable")
	}
	await(func(j *bulk.Job) bool { return j.Done > 0 && moved.Load() >= n/2 })
	loops.Go(func() { _ = other.Run(ctx) })
	end := await(func(j *bulk.Job) bool { return j.State == bulk.Completed })
	if end.Done != n || end.Failed != 0 || end.Left != 0 {
		t.Errorf("%d done, %d failed, %d left: %v", end.Done, end.Failed, end.Left, end.Errors)
	}
	released := 0
	for q := (stet.HistoryQuery{Limit: stet.MaxLimit}); ; {
		page, next, err := second.Operator().History(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for i := range page {
			if page[i].Action() == "release" {
				released++
			}
		}
		if q.After = next; next == "" {
			break
		}
	}
	if released != n {
		t.Errorf("%d releases are in the history", released)
	}
}
