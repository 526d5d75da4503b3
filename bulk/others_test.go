package bulk_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/bulk"
	"github.com/stet-dev/stet/store/memstore"
)

// listed counts the heads that a loop is given of what is due.
type listed struct {
	stet.Store
	mu sync.Mutex
	n  int
}

func (l *listed) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	heads, next, err := l.Store.Due(ctx, q)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n += len(heads)
	return heads, next, err
}

// Unwrap is there for the store's abilities.
func (l *listed) Unwrap() stet.Store { return l.Store }

// Run looks for jobs, and is not given the runs of others that wait to be resumed.
func TestRunLooksForJobsAlone(t *testing.T) { // K15
	synctest.Test(t, func(t *testing.T) {
		s := &listed{Store: memstore.New(memstore.Config{})}
		d := newDesk(t, s)
		for i := range 500 {
			h := stet.Head{ID: stet.ID{Scope: "s", Key: stet.Key(fmt.Sprint(i))}, Version: 7, State: stet.Running, Attempt: 1, Point: "walk",
				DueIn: time.Second, Rules: stet.Rules{OnLapse: stet.LapseResume}}
			if _, err := s.Create(t.Context(), stet.Record{Head: h}); err != nil {
				t.Fatal(err)
			}
		}
		d.unknown(0, 3)
		job := d.start(bulk.Order{Action: bulk.Release, Query: unknowns, Expect: 3})
		ctx, end := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		loop.Go(func() { _ = d.jobs.Run(ctx) })
		time.Sleep(10 * time.Minute)
		end()
		loop.Wait()
		d.is(job.ID, bulk.Completed, 3, 0, 0)
		if s.n != 1 {
			t.Errorf("Run was given %d heads of what is due; want that of the job", s.n)
		}
	})
}
