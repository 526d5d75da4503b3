// Package limiting tests that what a client may use up is not exceeded by asking for it many times
// at once, nor by asking two gateways on one store.
package limiting

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/storetest"
)

const (
	burst   = 5
	crowd   = 200
	seldom  = 0.001 // new keys a second: none comes during a test
	someone = "X-Tenant"
)

// gate is a guarded handler, and what became of its requests.
type gate struct {
	t      *testing.T
	h      http.Handler
	runs   atomic.Int64
	events sync.Map // result: *atomic.Int64
}

func newGate(t *testing.T, s stet.Store, c stethttp.LimitsConfig) *gate {
	t.Helper()
	g := &gate{t: t}
	e, err := stet.New(s, stet.Config{StoreTimeout: 20 * time.Second, Observe: func(ev stet.Event) {
		if ev.Kind == stet.Answer {
			n, _ := g.events.LoadOrStore(ev.Result, new(atomic.Int64))
			n.(*atomic.Int64).Add(1)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Drain(context.Background()); err != nil {
			t.Error(err)
		}
	})
	g.h = stethttp.Middleware(e, stethttp.HeaderScope(someone), stethttp.Config{Limits: stethttp.NewLimits(c)})(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			g.runs.Add(1)
			w.WriteHeader(http.StatusCreated)
		}))
	return g
}

func (g *gate) result(name string) int64 {
	if n, ok := g.events.Load(name); ok {
		return n.(*atomic.Int64).Load()
	}
	return 0
}

func (g *gate) post(scope, key string) *http.Response {
	r := httptest.NewRequestWithContext(g.t.Context(), http.MethodPost, "/charges", http.NoBody)
	r.Header.Set(someone, scope)
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	g.h.ServeHTTP(w, r)
	return w.Result()
}

// at sends n requests at once.
func at(n int, send func(i int)) {
	var ready, done sync.WaitGroup
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			ready.Wait()
			send(i)
		})
	}
	done.Wait()
}

// Alone: a limit that has room for five lets exactly five of 200 simultaneous requests through,
// whichever limit it is; repeats of known requests get their answer in the middle of it, and use up
// nothing.
func Alone(t *testing.T, b storetest.Backend) { // E01
	s := b.Open(t, t.TempDir(), nil)
	t.Cleanup(func() {
		if c, ok := s.(io.Closer); ok {
			_ = c.Close()
		}
	})
	const known = 3
	before := newGate(t, s, stethttp.LimitsConfig{})
	for _, c := range []struct {
		name string
		c    stethttp.LimitsConfig
		code stethttp.Code
	}{
		{"rate", stethttp.LimitsConfig{NewKeysPerSecond: seldom, Burst: burst}, stethttp.RateLimited},
		{"keys of a scope", stethttp.LimitsConfig{MaxKeysPerScope: burst + known}, stethttp.KeyQuotaExceeded},
		{"keys", stethttp.LimitsConfig{MaxKeys: burst + 3*known + 2*burst}, stethttp.KeyQuotaExceeded}, // those of the cases before count
		{"all of them", stethttp.LimitsConfig{NewKeysPerSecond: seldom, Burst: burst, MaxKeysPerScope: 1000, MaxKeys: 1000}, stethttp.RateLimited},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i := range known {
				if a := before.post(c.name, "known-"+strconv.Itoa(i)); a.StatusCode != http.StatusCreated {
					t.Fatalf("without limits: %s", a.Status)
				}
			}
			g := newGate(t, s, c.c)
			var refused, replayed atomic.Int64
			at(crowd+crowd/4, func(i int) {
				if i >= crowd {
					a := g.post(c.name, "known-"+strconv.Itoa(i%known))
					if a.Header.Get("Idempotent-Replayed") == "true" {
						replayed.Add(1)
					}
					return
				}
				a := g.post(c.name, "new-"+strconv.Itoa(i))
				if a.StatusCode == http.StatusTooManyRequests && a.Header.Get("Retry-After") != "" {
					refused.Add(1)
				}
			})
			if n := g.runs.Load(); n != burst {
				t.Errorf("%d of %d ran, and there is room for %d", n, crowd, burst)
			}
			if refused.Load() != crowd-burst || g.result("limited") != crowd-burst {
				t.Errorf("%d were refused with 429, %d counted as limited", refused.Load(), g.result("limited"))
			}
			if replayed.Load() != crowd/4 {
				t.Errorf("%d of %d repeats were answered", replayed.Load(), crowd/4)
			}
		})
	}
	t.Run("one key", func(t *testing.T) { // who loses the race for a key gives back what it took
		g := newGate(t, s, stethttp.LimitsConfig{NewKeysPerSecond: seldom, Burst: crowd + 1, MaxKeysPerScope: crowd + 1})
		at(crowd, func(int) { g.post("one key", "k") })
		if n := g.runs.Load(); n != 1 {
			t.Fatalf("it ran %d times", n)
		}
		at(crowd+burst, func(i int) { g.post("one key", "new-"+strconv.Itoa(i)) })
		if n := g.runs.Load(); n != crowd+1 {
			t.Errorf("%d keys, and there was room for %d beside the one that many asked for", n-1, crowd)
		}
	})
}

// Together: two gateways on one store let through what one may, within the error that is
// documented.
func Together(t *testing.T, b storetest.Backend) { // E01
	const (
		rate    = 50
		room    = 120
		seconds = 4
	)
	dir := t.TempDir()
	var stores [2]stet.Store
	for i := range stores {
		stores[i] = b.Open(t, dir, nil)
		if c, ok := stores[i].(io.Closer); ok {
			t.Cleanup(func() { _ = c.Close() })
		}
	}
	storm := func(scope string, c stethttp.LimitsConfig) (runs int64) {
		c.Replicas = len(stores)
		var gates []*gate
		for _, s := range stores {
			gates = append(gates, newGate(t, s, c))
		}
		end := time.Now().Add(seconds * time.Second)
		var done sync.WaitGroup
		for i := range 4 * len(gates) {
			done.Go(func() {
				pause := time.NewTicker(10 * time.Millisecond)
				defer pause.Stop()
				for n := 0; time.Now().Before(end); n++ {
					gates[i%len(gates)].post(scope, fmt.Sprintf("key-%d-%d", i, n))
					<-pause.C
				}
			})
		}
		done.Wait()
		for _, g := range gates {
			runs += g.runs.Load()
		}
		return runs
	}
	t.Run("rate", func(t *testing.T) {
		runs := storm("rate", stethttp.LimitsConfig{NewKeysPerSecond: rate, Burst: 10})
		// Once around the beginning each of them lets through what it may alone; then it is the
		// rate.
		const least, most = rate * seconds / 2, 2*(10+rate) + rate*seconds
		t.Logf("%d keys in %d s at %d a second", runs, seconds, rate)
		if runs < least || runs > most {
			t.Errorf("%d keys, want %d to %d", runs, least, most)
		}
		if alone := 2 * (10 + rate*seconds); most >= alone {
			t.Fatalf("the bound shows nothing: without looks it were %d", alone)
		}
	})
	t.Run("keys", func(t *testing.T) {
		runs := storm("keys", stethttp.LimitsConfig{NewKeysPerSecond: rate, Burst: 10, MaxKeysPerScope: room})
		t.Logf("%d keys, and the bound is %d", runs, room)
		if runs < room || runs > room+rate+10 {
			t.Errorf("%d keys are stored, want %d and at most %d over it", runs, room, rate+10)
		}
	})
}
