package sqlite

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/bulk"
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
	for action, state := range map[bulk.Action]stet.State{bulk.Release: stet.Unknown, bulk.Delete: stet.Completed} {
		b.Run(string(action), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "stet.db"))
			populate(b, s, "other", 20_000, stet.Retryable)
			e, err := stet.New(s, stet.Config{StoreTimeout: 10 * time.Second})
			if err != nil {
				b.Fatal(err)
			}
			jobs, done := bulk.New(e), 0
			b.ResetTimer()
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				populate(b, s, fmt.Sprint(i), n, state)
				b.StartTimer()
				job, err := jobs.Start(b.Context(), bulk.Order{Action: action, Query: stet.Query{States: []stet.State{state}}, Expect: n, Now: action == bulk.Release,
					Note: stet.Note{Who: "bench", Why: "to see how long it takes"}})
				if err == nil {
					err = jobs.Work(b.Context(), job.ID)
				}
				if err == nil {
					job, err = jobs.Get(b.Context(), job.ID)
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
