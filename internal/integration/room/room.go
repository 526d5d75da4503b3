// Package room tests that the memory in which stored answers are read has the bound that the guard
// has for all that it buffers, whatever store they come from.
package room

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/metrics"
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
	fit    = 4  // answers that the bound has room for
	crowd  = 24 // retries at once
	tenant = "X-Tenant"

	maxReading = 16 << 20 // as in package stet
	copies     = 4        // that a store has of what it reads
	slack      = 64 << 20 // of what dies while the garbage collector marks, which counts as live, and of the driver
)

// Holds sends a crowd of retries whose answers have size bytes each, at a bound that has room for
// four of them. No client reads on after the first bytes. Those for whom there is no room are
// refused, what was read and not yet sent is never more than the bound, and in all it is live
// memory of no more than that and what is on its way.
func Holds(t *testing.T, b storetest.Backend, size int) { // C11
	s := &counting{Store: b.Open(t, t.TempDir(), nil)}
	t.Cleanup(func() {
		if c, ok := s.Store.(interface{ Close() error }); ok {
			_ = c.Close()
		}
	})
	e, err := stet.New(s, stet.Config{StoreTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Drain(context.Background()); err != nil {
			t.Error(err)
		}
	})
	bound := int64(fit*size + 64<<10)
	limits := stethttp.NewLimits(stethttp.LimitsConfig{MaxBufferedBytes: bound, SharePerScope: 1, SmallReserve: 1})
	var runs atomic.Int64
	h := stethttp.Middleware(e, stethttp.HeaderScope(tenant), stethttp.Config{Limits: limits, MaxResponse: 2 * int64(size)})(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			runs.Add(1)
			seed := [32]byte{byte(len(r.Header.Get(tenant)))}
			part := make([]byte, 1<<20)
			w.WriteHeader(http.StatusCreated)
			for n, noise := 0, rand.NewChaCha8(seed); n < size; n += len(part) {
				_, _ = noise.Read(part)
				_, _ = w.Write(part[:min(len(part), size-n)])
			}
		}))
	send := func(w http.ResponseWriter, i int) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
		r.Header.Set("Idempotency-Key", `"`+strconv.Itoa(i%fit)+`"`)
		r.Header.Set(tenant, fmt.Sprint("t", i%fit))
		h.ServeHTTP(w, r)
	}
	for i := range fit {
		w := &client{}
		if send(w, i); w.status != http.StatusCreated || w.n != size {
			t.Fatalf("the first: %d, %d bytes", w.status, w.n)
		}
	}
	s.handed.Store(0)
	live := watch()
	goOn := make(chan struct{})
	var answered, all sync.WaitGroup
	var refused, stalled atomic.Int64
	answered.Add(crowd)
	for i := range crowd {
		all.Go(func() {
			var once sync.Once
			w := &client{stall: func() { once.Do(func() { stalled.Add(1); answered.Done() }); <-goOn }}
			send(w, i)
			if w.status == http.StatusTooManyRequests && w.Header().Get("Retry-After") == "1" {
				refused.Add(1)
			} else if w.status != http.StatusCreated || w.n != size {
				t.Errorf("a retry: %d, %d bytes", w.status, w.n)
			}
			once.Do(answered.Done)
		})
	}
	answered.Wait()
	if handed, held := s.handed.Load(), limits.Buffered(); handed > bound || held > bound {
		t.Errorf("%d bytes were read, and %d are held, for clients that do not read; the bound is %d", handed, held, bound)
	}
	if most := s.most.Load(); most > max(maxReading, int64(size)+1000) {
		t.Errorf("%d bytes were being read at a time", most)
	}
	close(goOn)
	all.Wait()
	if most := live(); most > bound+copies*max(maxReading, int64(size))+slack {
		t.Errorf("%d MiB were live at a bound of %d", most>>20, bound>>20)
	} else {
		t.Logf("%d MiB were live at a bound of %d: %d retries were answered, %d refused", most>>20, bound>>20, stalled.Load(), refused.Load())
	}
	if stalled.Load() == 0 || stalled.Load() > fit || stalled.Load()+refused.Load() != crowd {
		t.Errorf("%d retries were answered and %d refused", stalled.Load(), refused.Load())
	}
	w := &client{}
	if send(w, 0); w.status != http.StatusCreated || w.n != size {
		t.Errorf("then: %d, %d bytes", w.status, w.n)
	}
	if n := limits.Buffered(); n != 0 || runs.Load() != fit {
		t.Errorf("%d bytes are held in the end, and the handler ran %d times", n, runs.Load())
	}
}

// client takes an answer without keeping it, and may stall at its first bytes.
type client struct {
	header http.Header
	status int
	n      int
	stall  func()
}

func (c *client) Header() http.Header {
	if c.header == nil {
		c.header = http.Header{}
	}
	return c.header
}

func (c *client) WriteHeader(status int) { c.status = status }

func (c *client) Write(p []byte) (int, error) {
	if c.stall != nil && c.status == http.StatusCreated {
		c.stall()
	}
	c.n += len(p)
	return len(p), nil
}

// counting counts the bytes of large bodies that a store has handed out, and how many of them it
// was reading at a time.
type counting struct {
	stet.Store
	handed, now, most atomic.Int64
}

func (s *counting) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	if most := stet.MaxBody(ctx); most > stet.SmallBody {
		now := s.now.Add(most)
		for was := s.most.Load(); now > was && !s.most.CompareAndSwap(was, now); was = s.most.Load() {
		}
		defer s.now.Add(-most)
	}
	r, err := s.Store.Get(ctx, id)
	s.count(&r)
	return r, err
}

func (s *counting) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	got, err := s.Store.Create(ctx, r)
	s.count(&got)
	return got, err
}

func (s *counting) count(r *stet.Record) {
	if r.Response != nil {
		s.handed.Add(int64(len(r.Response.Body)))
	}
}

// watch looks at the live heap, over what it is now, until it is asked for the most of it.
func watch() (most func() int64) {
	sample := func() int64 {
		runtime.GC()
		m := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(m)
		return int64(m[0].Value.Uint64())
	}
	base, peak := sample(), int64(0)
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-end:
				return
			default:
				peak = max(peak, sample()-base)
			}
		}
	}()
	return func() int64 { close(end); <-done; return peak }
}
