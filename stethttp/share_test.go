package stethttp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/stalling"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// tenants is a guarded handler for several scopes. It answers with what it was sent, and with big
// bytes to a key that begins with that word.
type tenants struct {
	t       *testing.T
	limits  *stethttp.Limits
	engine  *stet.Engine
	handler http.Handler
	stalls  sync.WaitGroup
	resume  chan struct{}
}

const big = 700_000

func newTenants(t *testing.T, c stethttp.LimitsConfig) *tenants {
	t.Helper()
	w := &tenants{t: t, limits: stethttp.NewLimits(c), resume: make(chan struct{})}
	var err error
	if w.engine, err = stet.New(memstore.New(memstore.Config{}), stet.Config{}); err != nil {
		t.Fatal(err)
	}
	w.handler = stethttp.Middleware(w.engine, stethttp.HeaderScope("X-Tenant"), stethttp.Config{Limits: w.limits, MaxBody: 4 << 20,
		MaxResponse: 4 << 20})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusCreated)
		if strings.HasPrefix(r.Header.Get("Idempotency-Key"), "big") {
			_, _ = w.Write(make([]byte, big))
			return
		}
		_, _ = io.Copy(w, r.Body)
	}))
	return w
}

func (w *tenants) request(scope, key string, body io.Reader, length int) *http.Request {
	r := httptest.NewRequestWithContext(w.t.Context(), http.MethodPost, "/", body)
	r.Header.Set("X-Tenant", scope)
	r.Header.Set("Idempotency-Key", key)
	r.ContentLength = int64(length)
	return r
}

func (w *tenants) post(scope, key string, size int) *httptest.ResponseRecorder {
	a := httptest.NewRecorder()
	w.handler.ServeHTTP(a, w.request(scope, key, strings.NewReader(strings.Repeat("x", size)), size))
	return a
}

func (w *tenants) want(status int, what string, a *httptest.ResponseRecorder) {
	w.t.Helper()
	if a.Code != status || status == 429 && a.Header().Get("Retry-After") != "1" {
		w.t.Errorf("%s: %d %.100q, want %d; %d bytes are held", what, a.Code, a.Body.String(), status, w.limits.Buffered())
	}
}

// stall sends all of a body but its last byte, and waits. It returns how many bytes that holds.
func (w *tenants) stall(scope, key string, size int) int64 {
	before := w.limits.Buffered()
	sent := make(chan struct{})
	body := &stalling.Reader{Reader: strings.NewReader(strings.Repeat("x", size-1)), Reached: sent, On: w.resume}
	done := make(chan struct{})
	w.stalls.Go(func() {
		defer close(done)
		w.handler.ServeHTTP(httptest.NewRecorder(), w.request(scope, key, body, size))
	})
	select {
	case <-sent:
	case <-done:
	}
	return w.limits.Buffered() - before
}

// end lets stalled requests go, and looks whether all that was held came back.
func (w *tenants) end() {
	w.t.Helper()
	close(w.resume)
	w.stalls.Wait()
	if n := w.limits.Buffered(); n != 0 {
		w.t.Errorf("%d bytes are held in the end", n)
	}
}

// Four stalled bodies of 1 MiB, at a bound of 4 MiB, refused everybody, replays included.
func TestStalledBodiesOfOneScope(t *testing.T) { // C11
	w := newTenants(t, stethttp.LimitsConfig{MaxBufferedBytes: 4 << 20})
	w.want(201, "the first", w.post("honest", "known", 100))
	w.want(201, "of the same scope", w.post("greedy", "known", 100))
	for _, k := range []string{"a", "b", "c", "d"} {
		w.stall("greedy", k, 1<<20)
	}
	if n := w.limits.Buffered(); n > 2<<20 {
		t.Errorf("one scope holds %d bytes of 4 MiB", n)
	}
	w.want(429, "another large one of the same scope", w.post("greedy", "e", 1<<20))
	w.want(201, "its own replay", w.post("greedy", "known", 100))
	w.want(201, "a replay", w.post("honest", "known", 100))
	w.want(201, "a small one", w.post("honest", "new", 1000))
	w.want(201, "a large one", w.post("honest", "large", 700_000))
	w.end()
	w.want(201, "then", w.post("greedy", "a", 1<<20))
}

func TestStalledBodiesOfManyScopes(t *testing.T) { // C11
	w := newTenants(t, stethttp.LimitsConfig{MaxBufferedBytes: 4 << 20})
	w.want(201, "the first", w.post("honest", "known", 10_000))
	for _, s := range []string{"a", "b", "c", "d", "e", "f"} {
		w.stall(s, "k", 1<<20)
	}
	for i := 0; w.stall("g", "k"+strconv.Itoa(i), 100_000) > 0; i++ { // fill it up
	}
	for i := 0; w.limits.Buffered() < 4<<20-4<<17; i++ { // and small ones, until no more than the reserve is left
		w.stall("small"+strconv.Itoa(i), "k", 15_000)
	}
	w.want(429, "a large one", w.post("honest", "large", 1<<20))
	w.want(201, "a replay", w.post("honest", "known", 10_000))
	w.want(201, "a small one", w.post("honest", "new", 10_000))
	w.want(429, "a small one of who holds much", w.post("a", "small", 10_000))
	if n := w.limits.Buffered(); n > 4<<20 {
		t.Errorf("%d bytes are held", n)
	}
	w.end()
}

// A stored response is held for as long as its client takes to read it, and that counts as well.
func TestReplaysToSlowReadersCount(t *testing.T) { // C11
	w := newTenants(t, stethttp.LimitsConfig{MaxBufferedBytes: 4 << 20})
	w.want(201, "the first", w.post("s", "big", 1000))
	w.want(201, "the first of another", w.post("honest", "big", 0))
	leave := make(chan struct{})
	var readers sync.WaitGroup
	for want := int64(big); want <= 2*big; want += big {
		slow := stalled{httptest.NewRecorder(), make(chan struct{}), leave}
		r := w.request("s", "big", strings.NewReader(strings.Repeat("x", 1000)), 1000)
		readers.Go(func() { w.handler.ServeHTTP(slow, r) })
		const header = 1000
		if <-slow.full; w.limits.Buffered() < want || w.limits.Buffered() > want+2*header {
			t.Errorf("%d bytes are held for clients that do not read, want %d and their headers", w.limits.Buffered(), want)
		}
	}
	a := w.post("s", "big", 1000)
	w.want(429, "one too many", a)
	if !strings.Contains(a.Body.String(), "Nothing was run again") {
		t.Errorf("%.200s", a.Body.String())
	}
	w.want(201, "another scope's replay", w.post("honest", "big", 0))
	close(leave)
	readers.Wait()
	w.want(201, "then", w.post("s", "big", 1000))
	w.end()
}

// Who says in 900 kB whose a request is would have that stored with every key.
func TestScopesHaveALongestLength(t *testing.T) { // C11
	for _, most := range []int{0, 10} {
		w := newTenants(t, stethttp.LimitsConfig{MaxScopeBytes: most})
		if most == 0 {
			most = 1024
		}
		w.want(201, "as long as may be", w.post(strings.Repeat("s", most), "k", 10))
		a := w.post(strings.Repeat("s", most+1), "k", 10)
		w.want(401, "longer", a)
		if !strings.Contains(a.Body.String(), `"unauthenticated"`) || strings.Contains(a.Body.String(), "sssss") {
			t.Errorf("%s", a.Body)
		}
		if n, err := w.engine.Operator().Count(t.Context(), stet.Query{}); n != 1 || err != nil {
			t.Errorf("%d records, %v", n, err)
		}
	}
}

// A result that the store does not take is kept for later, which is memory, too.
func TestResultsThatAreStillBeingStoredCount(t *testing.T) { // C11
	synctest.Test(t, func(t *testing.T) {
		limits := stethttp.NewLimits(stethttp.LimitsConfig{})
		c := stethttp.Config{Limits: limits, Policy: stet.Policy{Lease: 10 * time.Second}}
		large := strings.Repeat("x", 100_000)
		r := newRig(t, c, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, large) })
		r.store.noComplete.Store(true)
		if a := r.post("k", "{}"); a.StatusCode != 200 {
			t.Fatal(a.Status)
		}
		time.Sleep(time.Minute) // the lease is long over
		if n, held := r.engine.Unstored(); n != 1 || held < 100_000 || limits.Buffered() != 0 {
			t.Errorf("%d results in %d bytes are kept, and %d bytes are counted twice", n, held, limits.Buffered())
		}
		r.store.noComplete.Store(false)
		time.Sleep(time.Minute)
		if n, held := r.engine.Unstored(); n != 0 || held != 0 {
			t.Errorf("%d results in %d bytes are kept after the store has them", n, held)
		}
	})
}

// Trailers are stored with the headers, and have their bound with them.
func TestTrailersCountAsHeaders(t *testing.T) { // C11
	r := newRig(t, stethttp.Config{MaxHeader: 1000}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok")
		w.Header().Set(http.TrailerPrefix+"X-Sum", strings.Repeat("x", 1000))
	})
	if a := r.post("k", "{}"); a.StatusCode != 200 {
		t.Fatal(a.Status)
	}
	r.want(r.post("k", "{}"), 409, stethttp.ResultNotRetained)
}

// falling is a store that panics where a result is to be stored.
type falling struct{ stet.Store }

func (f falling) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	if h.State == stet.Completed {
		panic("bug")
	}
	return f.Store.Replace(ctx, prev, h, b)
}

// late waits until the request's time is over, which in shadow mode it never is.
func late(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-time.After(3 * time.Second): // virtual
	}
}

// Whatever ends an exchange, what it held comes back, and what comes later is not held any more.
func TestEverythingComesBack(t *testing.T) { // C11
	part := []byte(strings.Repeat("x", 10_000))
	for name, handler := range map[string]http.HandlerFunc{
		"an answer": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(part) },
		"a panic":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(part); panic("bug") },
		"an abort":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(part); panic(http.ErrAbortHandler) },
		"a truncated answer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99999")
			_, _ = w.Write(part)
		},
		"an answer too large": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(part)
			_, _ = w.Write(make([]byte, 200_000))
		},
		"an event stream": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write(part)
		},
		"no body": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
		"an answer taken back": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(part)
			w.(interface{ Discard() bool }).Discard()
			_, _ = w.Write(part[1:])
		},
		"an answer after a wait": func(w http.ResponseWriter, r *http.Request) { late(r); _, _ = w.Write(part) },
		"a panic after a wait":   func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(part); late(r); panic("bug") },
		"a late write": func(w http.ResponseWriter, _ *http.Request) {
			time.AfterFunc(time.Second, func() { _, _ = w.Write(part) })
			_, _ = w.Write(part)
		},
	} {
		for _, kind := range []string{"", "falling", "atomic", "atomic, without a key", "shadow"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					limits := stethttp.NewLimits(stethttp.LimitsConfig{})
					c := stethttp.Config{Limits: limits, MaxResponse: 100_000, Mode: stethttp.ModeOptional, Policy: stet.Policy{Execution: time.Second}}
					b := newBank()
					if kind == "falling" {
						b.Store = falling{b.Store}
					}
					if kind == "shadow" {
						c.Mode = stethttp.ModeShadow
					}
					var next http.Handler = handler
					if strings.HasPrefix(kind, "atomic") {
						next = stethttp.AtomicIn(b.begin, func(w http.ResponseWriter, r *http.Request, _ stet.Transaction) { handler(w, r) })
					}
					e, err := stet.New(b, stet.Config{})
					if err != nil {
						t.Fatal(err)
					}
					guarded := stethttp.Middleware(e, stethttp.SingleTenant, c)(next)
					for _, key := range []string{"k", "k", "l"} {
						if kind == "atomic, without a key" {
							key = ""
						}
						ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
						r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(strings.Repeat("b", 5000)))
						r.Header["Idempotency-Key"] = []string{key}
						if key == "" {
							delete(r.Header, "Idempotency-Key")
						}
						func() {
							defer func() { _ = recover() }()
							guarded.ServeHTTP(httptest.NewRecorder(), r)
						}()
						cancel()
					}
					time.Sleep(5 * time.Minute) // virtual
					if n := limits.Buffered(); n != 0 {
						t.Errorf("%d bytes are still held", n)
					}
				})
			})
		}
	}
}
