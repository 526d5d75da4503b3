// Package keeping measures what requests feel of keepers that work off a backlog on the same store.
package keeping

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/keeper"
)

// Rows is how long the backlog is: STET_ROWS, or a number that takes seconds.
func Rows(b *testing.B) int {
	n, err := strconv.Atoi(os.Getenv("STET_ROWS"))
	if os.Getenv("STET_ROWS") == "" {
		return 20_000
	}
	if err != nil {
		b.Fatal(err)
	}
	return n
}

const (
	turn  = 2 * time.Second
	every = 5 * time.Millisecond // a request begins
)

// Beside fills s with rows records that are due, half of them abandoned and half of them over, and times requests on it before
// and while a Sweeper and a Reaper work through those with their default settings, but for the pause between rounds. It
// reports both 99th percentiles, their ratio, and what was kept in a second.
func Beside(b *testing.B, s stet.Store, rows int) {
	const brief = time.Second
	fill(b, engine(b, s, brief, nil), rows)
	time.Sleep(2 * brief) // by any store's clock

	var kept atomic.Int64
	e := engine(b, s, stet.DefaultRetain, counted(&kept))
	requests(b, e, "warm", time.Now().Add(turn/4), func() bool { return true })
	for b.Loop() {
		idle := requests(b, e, "idle", time.Now().Add(turn), func() bool { return true })
		ctx, stop := context.WithCancel(b.Context())
		var keepers sync.WaitGroup
		keepers.Go(func() { _ = keeper.Sweeper{Engine: e, Every: time.Second}.Run(ctx) })
		keepers.Go(func() { _ = keeper.Reaper{Engine: e, Every: time.Second}.Run(ctx) })
		time.Sleep(1100 * time.Millisecond) // until both are at work
		from, began := kept.Load(), time.Now()
		beside := requests(b, e, "beside", began.Add(turn), func() bool { return kept.Load() < int64(rows) })
		moved, took := kept.Load()-from, time.Since(began)
		stop()
		keepers.Wait()
		b.ReportMetric(float64(p99(idle).Microseconds()), "idle-p99-us")
		b.ReportMetric(float64(p99(beside).Microseconds()), "beside-p99-us")
		b.ReportMetric(float64(p99(beside))/float64(p99(idle)), "ratio")
		b.ReportMetric(float64(moved)/took.Seconds(), "rows/s")
		b.ReportMetric(0, "ns/op")
	}
}

// counted adds up what keepers did.
func counted(kept *atomic.Int64) func(stet.Event) {
	return func(ev stet.Event) {
		switch {
		case ev.Kind == stet.Reaped:
			kept.Add(int64(ev.Count))
		case ev.Kind == stet.Transition && (ev.By == "sweeper" || ev.By == "reaper"):
			kept.Add(1)
		}
	}
}

// Reaping times requests on s at rest, and while a Reaper removes rows records whose time is over, which the caller has put there.
// It reports both 99th percentiles, their ratio, and how long the Reaper took.
func Reaping(b *testing.B, s stet.Store, rows int) {
	var kept atomic.Int64
	e := engine(b, s, stet.DefaultRetain, counted(&kept))
	always := func() bool { return true }
	requests(b, e, "warm", time.Now().Add(turn/4), always)
	idle := requests(b, e, "idle", time.Now().Add(2*turn), always)
	ctx, stop := context.WithCancel(b.Context())
	var keepers sync.WaitGroup
	keepers.Go(func() { _ = keeper.Reaper{Engine: e, Every: time.Millisecond}.Run(ctx) })
	began := time.Now()
	beside := requests(b, e, "beside", began.Add(5*time.Minute), func() bool { return kept.Load() < int64(rows) })
	took := time.Since(began)
	stop()
	keepers.Wait()
	b.ReportMetric(float64(p99(idle).Microseconds()), "idle-p99-us")
	b.ReportMetric(float64(p99(beside).Microseconds()), "beside-p99-us")
	b.ReportMetric(float64(p99(beside))/float64(p99(idle)), "ratio")
	b.ReportMetric(took.Seconds(), "s")
	b.ReportMetric(0, "ns/op")
}

func engine(b *testing.B, s stet.Store, brief time.Duration, observe func(stet.Event)) *stet.Engine {
	b.Helper()
	e, err := stet.New(s, stet.Config{Policy: stet.Policy{Lease: max(brief, time.Second), Rules: stet.Rules{Retain: brief}}, Observe: observe})
	if err != nil {
		b.Fatal(err)
	}
	return e
}

// fill leaves rows records: every other one without a result.
func fill(b *testing.B, e *stet.Engine, rows int) {
	b.Helper()
	var next atomic.Int64
	var fillers sync.WaitGroup
	for range 64 {
		fillers.Go(func() {
			for i := next.Add(1); i <= int64(rows); i = next.Add(1) {
				c, err := begin(b.Context(), e, fmt.Sprintf("due-%d", i))
				if err == nil && i%2 == 0 {
					err = c.Settle(b.Context(), stet.Outcome{Response: stet.Response{Status: 201, Body: make([]byte, 300)}})
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	fillers.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

func begin(ctx context.Context, e *stet.Engine, key string) (*stet.Claim, error) {
	d, err := e.Begin(ctx, stet.Request{ID: stet.ID{Scope: "shop-1", Key: stet.Key(key)}, Subject: stet.Subject{Method: "POST", Path: "/payments"}})
	if err == nil && d.Verdict != stet.Execute {
		err = fmt.Errorf("%s: %s", key, d.Verdict)
	}
	return d.Claim, err
}

// requests begins one every so often, as clients do, who do not wait for each other, and returns how long each took.
func requests(b *testing.B, e *stet.Engine, name string, end time.Time, more func() bool) (took []time.Duration) {
	b.Helper()
	var mu sync.Mutex
	var running sync.WaitGroup
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := 0; time.Now().Before(end) && more(); i++ {
		<-tick.C
		running.Go(func() {
			began := time.Now()
			c, err := begin(b.Context(), e, fmt.Sprintf("%s-%d-%d", name, began.UnixNano(), i))
			if err == nil {
				err = c.Settle(b.Context(), stet.Outcome{Response: stet.Response{Status: 201, Body: make([]byte, 300)}})
			}
			if err != nil {
				b.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(began))
		})
	}
	running.Wait()
	return took
}

func p99(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)*99/100]
}
