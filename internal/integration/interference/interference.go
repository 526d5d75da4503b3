// Package interference measures how much the background loops slow down requests while they work
// off a backlog in the same store, and tests that transactions which hold rows of the backlog do
// not stop the loops.
package interference

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
	"github.com/stet-dev/stet/maintenance"
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
	turn  = time.Second
	most  = 60                   // turns beside keepers
	every = 5 * time.Millisecond // a request begins
)

// Beside fills s with rows records that are due, half of them abandoned and half of them over, and
// times requests on it by turns: with nothing beside them, and while a Sweeper and a Reaper work
// through those with their default settings, but for the pause between rounds. It reports the 99th
// percentiles of both, and of the turns in which both keepers were at work, with their ratios to
// the first, and how much was swept and reaped in a second. rested, if not nil, is called once s is
// full.
func Beside(b *testing.B, s stet.Store, rows int, rested func()) {
	const brief = time.Second
	fill(b, engine(b, s, brief, nil), rows)
	time.Sleep(2 * brief) // by any store's clock
	if rested != nil {
		rested()
	}
	var k kept
	e := engine(b, s, 24*time.Hour, k.observe)
	requests(b, e, "warm", time.Now().Add(turn/2), always)
	for b.Loop() {
		var idle, beside, both []time.Duration
		var sweeping, reaping time.Duration
		left := func() bool { return k.sum() < int64(rows) }
		for n := 0; n < most && left(); n++ {
			idle = append(idle, requests(b, e, "idle", time.Now().Add(turn), always)...)
			toSweep, toReap, began := k.swept.Load() < int64(rows/2), k.reaped.Load() < int64(rows/2), time.Now()
			ctx, stop := context.WithCancel(b.Context())
			var keepers sync.WaitGroup
			keepers.Go(func() { _ = maintenance.Sweeper{Engine: e, Every: turn / 100}.Run(ctx) })
			keepers.Go(func() { _ = maintenance.Reaper{Engine: e, Every: turn / 100}.Run(ctx) })
			took := requests(b, e, "beside", began.Add(turn), left)
			stop()
			keepers.Wait()
			if beside = append(beside, took...); toSweep && toReap {
				both = append(both, took...)
			}
			if toSweep {
				sweeping += time.Since(began)
			}
			if toReap {
				reaping += time.Since(began)
			}
		}
		report(b, idle, "beside", beside)
		report(b, idle, "both", both)
		b.ReportMetric(float64(k.swept.Load())/sweeping.Seconds(), "swept/s")
		b.ReportMetric(float64(k.reaped.Load())/reaping.Seconds(), "reaped/s")
	}
}

func always() bool { return true }

// report compares the 99th percentile of requests with that of requests that nothing was beside.
func report(b *testing.B, idle []time.Duration, name string, took []time.Duration) {
	b.ReportMetric(float64(p99(idle).Microseconds()), "idle-p99-us")
	b.ReportMetric(float64(p99(took).Microseconds()), name+"-p99-us")
	b.ReportMetric(float64(p99(took))/float64(p99(idle)), name+"-ratio")
	b.ReportMetric(0, "ns/op")
}

// kept counts what keepers did.
type kept struct{ swept, reaped atomic.Int64 }

func (k *kept) observe(ev stet.Event) {
	switch {
	case ev.Kind == stet.Reaped:
		k.reaped.Add(int64(ev.Count))
	case ev.Kind == stet.Transition && ev.By == "sweeper":
		k.swept.Add(1)
	case ev.Kind == stet.Transition && ev.By == "reaper":
		k.reaped.Add(1)
	}
}

func (k *kept) sum() int64 { return k.swept.Load() + k.reaped.Load() }

// Reaping times requests on s at rest, and while a Reaper removes rows records whose time is over,
// which the caller has put there. It reports both 99th percentiles, their ratio, and how long the
// Reaper took.
func Reaping(b *testing.B, s stet.Store, rows int) {
	var k kept
	e := engine(b, s, 24*time.Hour, k.observe)
	requests(b, e, "warm", time.Now().Add(turn), always)
	idle := requests(b, e, "idle", time.Now().Add(4*turn), always)
	ctx, stop := context.WithCancel(b.Context())
	var keepers sync.WaitGroup
	keepers.Go(func() { _ = maintenance.Reaper{Engine: e, Every: time.Millisecond}.Run(ctx) })
	began := time.Now()
	beside := requests(b, e, "beside", began.Add(5*time.Minute), func() bool { return k.sum() < int64(rows) })
	took := time.Since(began)
	stop()
	keepers.Wait()
	report(b, idle, "beside", beside)
	b.ReportMetric(took.Seconds(), "s")
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

// requests begins one every so often, as clients do, who do not wait for each other, and returns
// how long each took.
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
