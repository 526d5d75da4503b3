package stethttp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// would returns what each request since the last call would have been answered.
func (r *rig) would() (words []string) {
	r.t.Helper()
	if err := r.engine.Drain(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == stet.Answer {
			if e.Result != "bypass" {
				r.t.Errorf("counted as %q", e.Result)
			}
			words = append(words, e.Cause)
		}
	}
	r.events = nil
	return words
}

func (r *rig) wantWould(want ...string) {
	r.t.Helper()
	if got := r.would(); !reflect.DeepEqual(got, want) {
		r.t.Errorf("would have been %q, want %q", got, want)
	}
}

func shadowed(c stethttp.Config) stethttp.Config {
	c.Mode = stethttp.ModeShadow
	return c
}

// echo reads its request to the end, and says so.
func echo(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	w.Header().Set("X-Echo", "1")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(b)
}

func TestShadowCounts(t *testing.T) { // C15
	status := http.StatusCreated
	r := newRig(t, shadowed(stethttp.Config{MaxBody: 20}), func(w http.ResponseWriter, req *http.Request) {
		if status == 0 {
			panic(http.ErrAbortHandler)
		}
		if status != http.StatusNotImplemented {
			_, _ = io.ReadAll(req.Body)
		}
		w.WriteHeader(status)
	})
	post := func(key, body string) {
		defer func() { _ = recover() }()
		r.post(key, body)
	}
	for i, c := range []struct {
		status    int
		key, body string
		want      string
	}{
		{201, "", "{}", "missing_key"},
		{201, `""`, "{}", "invalid_key"},
		{201, "a", "{}", "new"},
		{201, "a", "{}", "replay"},
		{201, "a", `{"a":1}`, "conflict"},
		{201, "b", "", "new"},
		{201, "b", "", "replay"},
		{201, "c", `"23456789012345678901"`, "too_large"},
		{201, "c", "{}", "new"}, // nothing was reserved before
		{403, "d", "{}", "new"},
		{403, "d", "{}", "retry"},
		{0, "e", "", "new"},
		{201, "e", "", "unknown"},
		{501, "f", "{}", "unseen"}, // the handler did not look at its body
		{201, "f", "{}", "new"},
	} {
		status = c.status
		post(c.key, c.body)
		if got := r.would(); len(got) != 1 || got[0] != c.want {
			t.Errorf("request %d would have been %q, want %q", i, got, c.want)
		}
		r.wantRuns(int64(i + 1))
	}
}

// TestShadowCountsWhatRuns: a duplicate of what runs is one, though it runs as well.
func TestShadowCountsWhatRuns(t *testing.T) { // C15
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		r := newRig(t, shadowed(stethttp.Config{}), func(w http.ResponseWriter, req *http.Request) {
			echo(w, req)
			<-release
		})
		for range 2 {
			go r.post("k", "{}")
			synctest.Wait()
		}
		time.Sleep(time.Hour) // virtual: no execution timeout ends what would run without the layer, and the heartbeat keeps the key
		go r.post("k", "{}")
		synctest.Wait()
		close(release)
		synctest.Wait()
		got := r.would()
		counts := map[string]int{}
		for _, w := range got {
			counts[w]++
		}
		if len(got) != 3 || counts["new"] != 1 || counts["in_progress"] != 2 || r.state("k") != stet.Completed {
			t.Errorf("%q, and the record is %v", got, r.state("k"))
		}
	})
}

// slow is a store that takes as long as a test likes.
type slow struct {
	stet.Store
	gate chan struct{}
}

func (s *slow) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	<-s.gate
	return s.Store.Create(ctx, r)
}

// TestShadowWaitsForNoStore: whatever the store does, the client has its whole answer; and it does
// not fill the process.
func TestShadowWaitsForNoStore(t *testing.T) { // C15
	r := newRig(t, shadowed(stethttp.Config{}), echo)
	hung := &slow{memstore.New(memstore.Config{}), make(chan struct{})}
	var err error
	if r.engine, err = stet.New(hung, stet.Config{Observe: func(e stet.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
	}}); err != nil {
		t.Fatal(err)
	}
	limits := stethttp.NewLimits(stethttp.LimitsConfig{})
	r.handler = stethttp.Middleware(r.engine, stethttp.SingleTenant, shadowed(stethttp.Config{Limits: limits}))(http.HandlerFunc(echo))
	const atATime, more = 1024, 10
	for i := range atATime + more {
		r.want(r.post("k"+strings.Repeat("x", i%200), "{}"), 201, "")
	}
	close(hung.gate)
	unseen, judged := 0, 0
	for _, w := range r.would() {
		if w == "unseen" {
			unseen++
		} else {
			judged++
		}
	}
	if unseen != more || judged != atATime || limits.Buffered() != 0 {
		t.Errorf("%d unseen, %d judged, %d bytes are still held", unseen, judged, limits.Buffered())
	}
	synctest.Test(t, func(t *testing.T) { // a store that is away is asked for seconds
		down := newRig(t, shadowed(stethttp.Config{FailOpen: true}), echo)
		down.store.down.Store(true)
		resp := down.post("k", "{}")
		down.want(resp, 201, "")
		if resp.Header.Get("Stet-Unprotected") != "" {
			t.Error("the layer says something of itself")
		}
		down.wantWould("store_error")
	})
}

// TestShadowCopiesAreBounded: where there is no room, it is not known what would have been; handler
// and client see everything.
func TestShadowCopiesAreBounded(t *testing.T) { // C15
	limits := stethttp.NewLimits(stethttp.LimitsConfig{MaxBufferedBytes: 1000})
	r := newRig(t, shadowed(stethttp.Config{Limits: limits, MaxResponse: 100}), echo)
	for _, c := range []struct {
		size  int
		would string
	}{{2000, "unseen"}, {200, "new"}, {50, "new"}} {
		body := strings.Repeat("x", c.size)
		resp := r.post(body[:3]+c.would+string(rune('a'+c.size%26)), body)
		if got, _ := io.ReadAll(resp.Body); string(got) != body {
			t.Errorf("%d bytes came back as %d", c.size, len(got))
		}
		r.wantWould(c.would)
		if n := limits.Buffered(); n != 0 {
			t.Errorf("%d bytes are still held", n)
		}
	}
	for _, c := range []struct {
		key  string
		kept stet.Kept
	}{{"xxxnew" + string(rune('a'+200%26)), stet.KeptStatus}, {"xxxnew" + string(rune('a'+50%26)), stet.KeptWhole}} {
		rec, err := r.engine.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: stet.Key(c.key)})
		if err != nil || rec.State != stet.Completed || rec.Kept != c.kept || rec.Size == 0 {
			t.Errorf("%s: %v, kept %v, %d bytes: %v", c.key, rec.State, rec.Kept, rec.Size, err)
		}
	}
}

// TestShadowTakesNoTokens: what a route in shadow mode counts uses up nothing that others may.
func TestShadowTakesNoTokens(t *testing.T) { // C15
	limits := stethttp.NewLimits(stethttp.LimitsConfig{NewKeysPerSecond: 0.001, Burst: 1})
	r := newRig(t, shadowed(stethttp.Config{Limits: limits}), echo)
	guarded := stethttp.Middleware(r.engine, stethttp.SingleTenant, stethttp.Config{Limits: limits})(http.HandlerFunc(echo))
	for _, key := range []string{"a", "b", "c"} {
		r.want(r.post(key, "{}"), 201, "")
	}
	r.wantWould("new", "new", "new")
	r.handler = guarded
	r.want(r.post("d", "{}"), 201, "")
	r.want(r.post("e", "{}"), 429, stethttp.RateLimited)
}

// TestShadowLeavesRealRecords: when the route is switched on, what was really answered is what is
// replayed.
func TestShadowLeavesRealRecords(t *testing.T) { // C15
	r := newRig(t, shadowed(stethttp.Config{}), func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		echo(w, req)
		w.Header().Set("X-Sum", "7")
	})
	r.want(r.post("k", `{"a":1}`), 201, "")
	r.wantWould("new")
	r.handler = stethttp.Middleware(r.engine, stethttp.SingleTenant, stethttp.Config{})(http.HandlerFunc(echo))
	resp := r.post("k", `{ "a": 1 }`)
	body, _ := io.ReadAll(resp.Body)
	if string(body) != `{"a":1}` || resp.Header.Get("X-Echo") != "1" || resp.Header.Get("Idempotent-Replayed") != "true" || resp.Trailer.Get("X-Sum") != "7" {
		t.Errorf("%q with %v and %v", body, resp.Header, resp.Trailer)
	}
}

// TestShadowRunsOnTheClientsContext: a client that hangs up ends the handler, as it would without
// the layer; what would have become of the run with it is not known.
func TestShadowRunsOnTheClientsContext(t *testing.T) { // C15
	r := newRig(t, shadowed(stethttp.Config{}), func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.ReadAll(req.Body)
		if c := stet.ClaimFrom(req.Context()); c != nil {
			t.Error("there is a claim")
		} else {
			c.NotExecuted("nobody hears this")
		}
		<-req.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader("{}"))
	req.Header.Set("Idempotency-Key", "k")
	cancel()
	r.do(req)
	r.wantWould("new")
	if s := r.state("k"); s != stet.Unknown {
		t.Errorf("the record is %v", s)
	}
}

// TestShadowHandlersCanDoWhatTheyCould: and no more than the server's own writer can.
func TestShadowHandlersCanDoWhatTheyCould(t *testing.T) { // C15
	type abilities struct{ flush, hijack, push, readFrom bool }
	var got abilities
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, got.flush = w.(http.Flusher)
		_, got.hijack = w.(http.Hijacker)
		_, got.push = w.(http.Pusher)
		_, got.readFrom = w.(io.ReaderFrom)
	})
	r := newRig(t, shadowed(stethttp.Config{}), h)
	plain := struct{ http.ResponseWriter }{httptest.NewRecorder()}
	for _, c := range []struct {
		w    http.ResponseWriter
		want abilities
	}{
		{plain, abilities{}},
		{httptest.NewRecorder(), abilities{flush: true}},
		{struct {
			http.ResponseWriter
			http.Hijacker
		}{plain, nil}, abilities{hijack: true}},
		{struct {
			http.ResponseWriter
			http.Flusher
			http.Hijacker
		}{plain, nil, nil}, abilities{flush: true, hijack: true}},
		{struct {
			http.ResponseWriter
			http.Flusher
			http.Pusher
		}{plain, nil, nil}, abilities{flush: true, push: true}},
		{struct {
			http.ResponseWriter
			http.Flusher
			http.Hijacker
			io.ReaderFrom
		}{plain, nil, nil, nil}, abilities{flush: true, hijack: true, readFrom: true}},
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		req.Header.Set("Idempotency-Key", "k")
		got = abilities{}
		r.handler.ServeHTTP(c.w, req)
		if got != c.want {
			t.Errorf("%T: %+v", c.w, got)
		}
	}
}

// TestShadowBelievesWhoSawMore: what a proxy knows of an answer decides what is stored.
func TestShadowBelievesWhoSawMore(t *testing.T) { // C15
	for said, want := range map[stet.State]stet.State{0: stet.Completed, stet.Retryable: stet.Retryable, stet.Unknown: stet.Unknown} {
		r := newRig(t, shadowed(stethttp.Config{}), func(w http.ResponseWriter, req *http.Request) {
			echo(w, req)
			if said != 0 {
				stethttp.Observe(w, said, "seen")
			}
		})
		r.want(r.post("k", "{}"), 201, "")
		r.wantWould("new")
		if got := r.state("k"); got != want {
			t.Errorf("observed %v: the record is %v", said, got)
		}
	}
	stethttp.Observe(httptest.NewRecorder(), stet.Unknown, "nobody asked")
}
