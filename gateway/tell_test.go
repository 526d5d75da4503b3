package gateway_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/gateway"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// guarded is an upstream with a guard of its own, on engine e.
func guarded(e *stet.Engine, effects *atomic.Int64) http.Handler {
	return stethttp.Middleware(e, stethttp.SingleTenant, stethttp.Config{})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		effects.Add(1)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "done")
	}))
}

// C10: gateway and middleware on one database and scope. The inner guard meets the outer one's reservation: that is named, no key is
// burnt, and with a store of its own both work.
func TestASecondGuardBehindTheGateway(t *testing.T) {
	var mu sync.Mutex
	var causes []string
	store := memstore.New(memstore.Config{})
	inner, err := stet.New(store, stet.Config{Observe: func(e stet.Event) {
		if e.Kind == stet.Miswired {
			mu.Lock()
			defer mu.Unlock()
			causes = append(causes, e.Cause)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	var effects atomic.Int64
	var behind atomic.Pointer[http.Handler]
	swap := func(h http.Handler) { behind.Store(&h) }
	swap(guarded(inner, &effects))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*behind.Load()).ServeHTTP(w, r) }))
	t.Cleanup(srv.Close)
	outer, err := stet.New(store, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, srv.URL, nil)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	if r.gw, err = gateway.New(outer, gateway.Config{Upstream: u}); err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(r.gw)
	t.Cleanup(front.Close)
	r.url, r.engine = front.URL, outer
	for range 2 {
		p := r.problem(r.status(r.post("k", "/", "{}"), 409), stethttp.InProgress)
		if !strings.Contains(p.Detail, "two guards on one record") {
			t.Errorf("the cause is not named: %s", p.Detail)
		}
		r.state("k", stet.Retryable, "stated") // not burnt
	}
	if mu.Lock(); effects.Load() != 0 || !slices.Equal(causes, []string{"second-guard", "second-guard"}) {
		t.Errorf("%d effects, reported: %q", effects.Load(), causes)
	}
	mu.Unlock()

	own, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	swap(guarded(own, &effects)) // the mend: another store
	for range 2 {
		if a := r.status(r.post("k", "/", "{}"), 201); a.body != "done" {
			t.Errorf("%q", a.body)
		}
	}
	if effects.Load() != 1 {
		t.Errorf("%d effects, want 1", effects.Load())
	}
}

// C10: refusals of a layer behind are no results of the one in front.
func TestRefusalsBehindTheGatewayAreNotStored(t *testing.T) {
	inner, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(stethttp.Middleware(inner, stethttp.SingleTenant, stethttp.Config{MaxBody: 4})(http.NotFoundHandler()))
	t.Cleanup(srv.Close)
	r := newRig(t, srv.URL, nil)
	a := r.status(r.post("k", "/", "123456"), 413)
	r.problem(a, stethttp.PayloadTooLarge)
	if a.Header.Get("Stet-Outcome") != "" || a.Header.Get("Idempotency-Key") != `"k"` {
		t.Errorf("%v", a.Header)
	}
	r.state("k", stet.Retryable, "stated")
}

// C12, C10: what the gateway says in the upstream's place tells a layer in front what became of the request.
func TestTheGatewaysRefusalsStateTheirOutcome(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	r := newRig(t, "http://"+dead.Addr().String(), nil)
	for _, h := range []header{{"idempotency-key": "k"}, {}} {
		method := "POST"
		if len(h) == 0 {
			method = "PUT" // passes unguarded
		}
		a := r.status(r.do(method, "/", "{}", h), 502)
		r.problem(a, stethttp.UpstreamUnreachable)
		if a.Header.Get("Stet-Outcome") != "not-executed" {
			t.Errorf("%s: %q", method, a.Header.Get("Stet-Outcome"))
		}
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() { // takes a request, and hangs up
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if req, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.Copy(io.Discard, req.Body)
			}
			c.Close()
		}
	}()
	r = newRig(t, "http://"+l.Addr().String(), nil)
	for _, h := range []header{{"idempotency-key": "k"}, {}} {
		method := "POST"
		if len(h) == 0 {
			method = "PUT"
		}
		a := r.status(r.do(method, "/", "{}", h), 502)
		r.problem(a, stethttp.UpstreamFailed)
		if a.Header.Get("Stet-Outcome") != "unknown" {
			t.Errorf("%s: %q", method, a.Header.Get("Stet-Outcome"))
		}
	}
}

// C12: an upstream's word is read in any case, and one that is none is no statement that nothing happened.
func TestUpstreamsOutcomesAreStrictlyRead(t *testing.T) {
	for lines, want := range map[string]stet.State{"Not-Executed": stet.Retryable, "UNKNOWN": stet.Unknown, "Completed": stet.Completed,
		`"not-executed"`: stet.Unknown, "not-executed|not-executed": stet.Unknown, "unknow": stet.Unknown} {
		up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Stet-Outcome"] = strings.Split(lines, "|")
			w.WriteHeader(http.StatusAccepted)
		}))
		t.Cleanup(up.Close)
		r := newRig(t, up.URL, nil)
		if a := r.status(r.post("k", "/", "{}"), 202); a.Header["Stet-Outcome"] != nil {
			t.Errorf("%q went on to the client", a.Header["Stet-Outcome"])
		}
		rec, err := r.engine.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: "k"})
		if err != nil || rec.State != want {
			t.Errorf("%q: %v %v, want %v", lines, rec.State, err, want)
		}
	}
}

// C18: on the gateway's own answers, refusals before the guard among them.
func TestTheGatewaysAnswersEchoAndAllowOrigins(t *testing.T) {
	up := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(up.Close)
	r := newRig(t, up.URL, func(c *gateway.Config) {
		c.StrictCoverage = true
		c.Default.AllowOrigins = []string{"https://shop.example"}
		c.Default.KeyHeader = "X-Idem"
	})
	a := r.status(r.do("POST", "/", "{}", header{"X-Idem": "k", "Origin": "https://shop.example"}), 400)
	r.problem(a, stethttp.RouteNotCovered)
	h := a.Header
	if h.Get("Idempotency-Key") != `"k"` || h.Get("X-Idem") != `"k"` || h.Get("Access-Control-Allow-Origin") != "https://shop.example" {
		t.Errorf("%v", h)
	}
}
