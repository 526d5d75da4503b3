package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/operate"
)

// populate makes n records: their names are i with a prefix, their states as given.
func populate(t testing.TB, s stet.Store, prefix string, n int, state stet.State) {
	t.Helper()
	var wg sync.WaitGroup
	for worker := range 128 {
		wg.Go(func() {
			for i := worker; i < n; i += 128 {
				r := sample()
				r.ID = stet.ID{Scope: "tenant-1", Key: stet.Key(fmt.Sprintf("%s-%08d", prefix, i))}
				if r.State = state; state == stet.Completed {
					r.Status, r.Response = 503, &stet.Response{Status: 503, Body: make([]byte, 200)}
				}
				if _, err := s.Create(t.Context(), r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkBulk runs jobs over 4,000 records each, in a file of at least 20,000, with what each
// change costs: it is durable, and an entry of the history.
func BenchmarkBulk(b *testing.B) {
	const n = 4000
	for action, state := range map[operate.Action]stet.State{operate.ActRelease: stet.Unknown, operate.ActDelete: stet.Completed} {
		b.Run(string(action), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "stet.db"))
			populate(b, s, "other", 20_000, stet.Retryable)
			e, err := stet.New(s, stet.Config{StoreTimeout: 10 * time.Second})
			if err != nil {
				b.Fatal(err)
			}
			jobs, done := operate.NewJobs(), 0
			service, err := operate.New(operate.Config{Engine: e, Jobs: jobs})
			if err != nil {
				b.Fatal(err)
			}
			desk := service.For(operate.Caller{Name: "bench", Role: operate.Admin}, nil)
			ctx, end := context.WithCancel(b.Context())
			var loop sync.WaitGroup
			loop.Go(func() { _ = jobs.Run(ctx) })
			defer loop.Wait()
			defer end()
			b.ResetTimer()
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				populate(b, s, fmt.Sprint(i), n, state)
				b.StartTimer()
				started, err := desk.Start(b.Context(), operate.Order{Expect: n, Now: action == operate.ActRelease, Reason: "to see how long it takes",
					Selection: operate.Selection{Action: action, Filter: operate.Parameters{"state": state.String(), "scope": "tenant-1"}}})
				var job operate.Job
				for job.State = operate.JobRunning; err == nil && job.State == operate.JobRunning; time.Sleep(10 * time.Millisecond) {
					job, err = desk.Job(b.Context(), started.Job)
				}
				if err != nil || job.Done != n {
					b.Fatalf("%d done, %v: %v", job.Done, err, job.Errors)
				}
				done += n
			}
			b.ReportMetric(float64(done)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
