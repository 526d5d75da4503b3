package stet_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/maintenance"
	"github.com/stet-dev/stet/store/memstore"
)

// An engine on whose store no loop runs says so, about a run as about a result: at the first
// request after the time that it takes to be sure, and then every 10 minutes. Where loops run,
// wherever that is, it says nothing; nor of a run that is left for a completer.
func TestWhatIsNeglectedIsTold(t *testing.T) { // N06
	const run, kept, resumable = "a run", "a result", "a run that may go on"
	for _, c := range []struct {
		what  string
		loops bool
		from  stet.State // of the event; 0: none
	}{
		{run, false, stet.Running}, {run, true, 0},
		{kept, false, stet.Completed}, {kept, true, 0},
		{resumable, false, 0},
	} {
		name := c.what + ", no loops"
		if c.loops {
			name = c.what + ", loops"
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var told []stet.Event
				store := memstore.New(memstore.Config{})
				e, err := stet.New(store, stet.Config{Policy: stet.Policy{Rules: stet.Rules{Retain: time.Hour}}, Observe: func(ev stet.Event) {
					mu.Lock()
					defer mu.Unlock()
					if ev.Kind == stet.Neglected {
						told = append(told, ev)
					}
				}})
				if err != nil {
					t.Fatal(err)
				}
				elsewhere, err := stet.New(store, stet.Config{})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.loops {
					go func() { _ = maintenance.Background{Engine: elsewhere}.Run(ctx) }()
				}
				ask := func() int {
					t.Helper()
					q := request("another")
					q.LookupOnly = true
					if _, err := e.Begin(t.Context(), q); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					mu.Lock()
					defer mu.Unlock()
					return len(told)
				}
				q, sure := request("k"), 12*time.Minute // a lease, and ten minutes
				switch c.what {
				case resumable:
					q.Point, q.Policy = "charge", &stet.Policy{Rules: stet.Rules{OnLapse: stet.LapseResume}}
					must(t, e, q, stet.Execute)
				case run:
					must(t, e, q, stet.Execute)
				case kept:
					c := must(t, e, q, stet.Execute).Claim
					c.Completed()
					if err := c.Settle(t.Context(), result("done")); err != nil {
						t.Fatal(err)
					}
					sure = 2*time.Hour + time.Minute // the retention, and an hour
				}
				time.Sleep(9 * time.Minute) // the bubble's clock
				if n := ask(); n != 0 {
					t.Errorf("told of %+v after 9 minutes", told)
				}
				time.Sleep(sure - 9*time.Minute)
				want := 0
				if c.from != 0 {
					want = 1
				}
				if n := ask(); n != want || ask() != want {
					t.Fatalf("told %d times, want %d: %+v", n, want, told)
				}
				time.Sleep(10 * time.Minute)
				if n := ask(); n != 2*want {
					t.Errorf("told %d times 10 minutes later, want %d", n, 2*want)
				}
				if want > 0 && (told[0].From != c.from || told[0].ID != q.ID || told[0].Took < 10*time.Minute) {
					t.Errorf("told of %+v", told[0])
				}
			})
		})
	}
}
