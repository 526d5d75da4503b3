package stethttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// rig is a guarded handler, what it was asked, and what it stored.
type rig struct {
	t       *testing.T
	store   *flaky
	engine  *stet.Engine
	handler http.Handler
	runs    atomic.Int64

	mu     sync.Mutex
	events []stet.Event
}

func newRig(t *testing.T, c stethttp.Config, h func(w http.ResponseWriter, r *http.Request)) *rig {
	t.Helper()
	r := &rig{t: t, store: &flaky{Store: memstore.New(memstore.Config{})}}
	var err error
	r.engine, err = stet.New(r.store, stet.Config{StoreTimeout: 10 * time.Second, Observe: func(e stet.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.handler = stethttp.Middleware(r.engine, stethttp.SingleTenant, c)(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.runs.Add(1)
		h(w, req)
	}))
	return r
}

// post sends a request as net/http would hand it over.
func (r *rig) post(key, body string) *http.Response {
	req := httptest.NewRequestWithContext(r.t.Context(), http.MethodPost, "/charges", strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	return w.Result()
}

func (r *rig) want(resp *http.Response, status int, code stethttp.Code) {
	r.t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if resp.StatusCode != status {
		r.t.Fatalf("status %d, want %d: %s", resp.StatusCode, status, body)
	}
	if code == "" {
		return
	}
	var p stethttp.Problem
	if err := json.Unmarshal(body, &p); err != nil || p.Code != code || p.Status != status {
		r.t.Fatalf("problem %q (%v), want %q with status %d", body, err, code, status)
	}
}

func (r *rig) wantRuns(n int64) {
	r.t.Helper()
	if got := r.runs.Load(); got != n {
		r.t.Fatalf("the handler ran %d times, want %d", got, n)
	}
}

func (r *rig) state(key string) stet.State {
	rec, err := r.engine.Get(context.Background(), stet.ID{Scope: stethttp.DefaultScope, Key: stet.Key(key)})
	if err != nil {
		return 0
	}
	return rec.State
}

// flaky is a store with switches.
type flaky struct {
	stet.Store
	down, noComplete, noGet, corrupt atomic.Bool
}

// Count implements [stet.Counter].
func (f *flaky) Count(ctx context.Context, q stet.Query) (int, error) {
	return f.Store.(stet.Counter).Count(ctx, q)
}

var errDown = errors.New("connection refused")

func (f *flaky) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	switch {
	case f.corrupt.Load():
		return stet.Record{}, stet.ErrCorrupt
	case f.down.Load():
		return stet.Record{}, errDown
	}
	return f.Store.Create(ctx, r)
}

func (f *flaky) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	if f.down.Load() || f.noComplete.Load() && h.State == stet.Completed {
		return stet.Head{}, errDown
	}
	return f.Store.Replace(ctx, prev, h, b)
}

func (f *flaky) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	if f.noGet.Load() {
		return stet.Record{}, errDown
	}
	return f.Store.Get(ctx, id)
}

func (f *flaky) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	if f.down.Load() {
		return errDown
	}
	return f.Store.Delete(ctx, id, prev)
}

func created(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", "/charges/1")
	w.Header().Set("Date", "Mon, 01 Jan 2001 00:00:00 GMT")
	w.Header().Add("Set-Cookie", "a=1")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"id": "ch_1"}`)
}

func TestReplayIsTheFirstAnswer(t *testing.T) { // I1, I2
	r := newRig(t, stethttp.Config{}, created)
	first, again := r.post("k", `{"a":1}`), r.post(`"k"`, `{ "a": 1.0 }`)
	r.want(first, 201, "")
	r.wantRuns(1)
	if first.Header.Get("Idempotent-Replayed") != "" || again.Header.Get("Idempotent-Replayed") != "true" || again.Header.Get("Idempotent-Replay") != "true" {
		t.Error("markers: a replay has both, a first response none")
	}
	if again.Header.Get("Date") != "" || again.Header["Set-Cookie"] != nil || again.Header.Get("Location") != "/charges/1" {
		t.Errorf("replayed headers: %v", again.Header)
	}
	if a, b := first.Header.Get("Idempotency-Expires"), again.Header.Get("Idempotency-Expires"); a == "" || a != b {
		t.Errorf("Idempotency-Expires: %q, then %q", a, b)
	}
	if k := again.Header.Get("Idempotency-Key"); k != `"k"` {
		t.Errorf("echoed key: %s", k)
	}
	r.want(r.post("k", `{"a":2}`), 422, stethttp.KeyReused)
	r.want(again, 201, "")
}

func TestFirstResponseIsNeverMarked(t *testing.T) { // RP-02
	r := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Idempotent-Replayed", "true")
		w.Header().Set("Idempotent-Replay", "true")
	})
	if h := r.post("k", "{}").Header; h.Get("Idempotent-Replayed") != "" || h.Get("Idempotent-Replay") != "" {
		t.Errorf("a first response says it is a replay: %v", h)
	}
}

func TestStoreFaultsNeverRunTwice(t *testing.T) { // I8, SF-01, SF-06
	r := newRig(t, stethttp.Config{}, created)
	r.store.down.Store(true)
	resp := r.post("k", "{}")
	r.want(resp, 503, stethttp.StoreUnavailable)
	if resp.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	r.wantRuns(0)
	r.store.down.Store(false)
	r.want(r.post("k", "{}"), 201, "")
	r.store.corrupt.Store(true)
	r.want(r.post("k", "{}"), 503, stethttp.StoreUnavailable)
	r.wantRuns(1)
}

func TestFailOpenRunsUnprotectedButNeverOnACorruptRecord(t *testing.T) { // SF-03
	r := newRig(t, stethttp.Config{FailOpen: true}, func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		_, _ = w.Write(body)
	})
	r.store.down.Store(true)
	resp := r.post("k", `{"whole":"body"}`)
	if body, _ := io.ReadAll(resp.Body); string(body) != `{"whole":"body"}` || resp.Header.Get("Stet-Unprotected") != "store-unavailable" {
		t.Errorf("body %q, headers %v", body, resp.Header)
	}
	r.store.corrupt.Store(true)
	r.want(r.post("k", "{}"), 503, stethttp.StoreUnavailable)
	r.wantRuns(1)
}

func TestResultThatCannotBeStoredIsAnsweredAndStoredLater(t *testing.T) { // W5, SF-05
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stethttp.Config{}, created)
		r.store.noComplete.Store(true)
		r.want(r.post("k", "{}"), 201, "")
		r.want(r.post("k", "{}"), 409, stethttp.InProgress)
		r.store.noComplete.Store(false)
		if err := r.engine.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		resp := r.post("k", "{}")
		r.want(resp, 201, "")
		if resp.Header.Get("Idempotent-Replayed") != "true" {
			t.Error("not a replay")
		}
		r.wantRuns(1)
	})
}

func TestWithheldResultIsNotSent(t *testing.T) { // W5, on_complete_failure: withhold
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stethttp.Config{Withhold: true}, created)
		r.store.noComplete.Store(true)
		r.want(r.post("k", "{}"), 409, stethttp.OutcomeUnknown)
		r.wantRuns(1)
		_ = r.engine.Drain(t.Context())
	})
}

func TestPanicGoesOnAndIsUnknown(t *testing.T) { // W13, FX-05, FX-07
	for _, thrown := range []any{"boom", http.ErrAbortHandler} {
		r := newRig(t, stethttp.Config{}, func(http.ResponseWriter, *http.Request) { panic(thrown) })
		func() {
			defer func() {
				if got := recover(); got != thrown {
					t.Errorf("recovered %v, want %v", got, thrown)
				}
			}()
			r.post("k", "{}")
		}()
		r.want(r.post("k", "{}"), 409, stethttp.OutcomeUnknown)
		r.wantRuns(1)
	}
}

func TestOnPanic(t *testing.T) { // FX-06
	for policy, want := range map[stethttp.OnPanic]int{stethttp.PanicRelease: 201, stethttp.PanicReplay: 500} {
		first := true
		r := newRig(t, stethttp.Config{OnPanic: policy}, func(w http.ResponseWriter, req *http.Request) {
			if first {
				first = false
				panic("boom")
			}
			created(w, req)
		})
		func() {
			defer func() { _ = recover() }()
			r.post("k", "{}")
		}()
		r.want(r.post("k", "{}"), want, "")
	}
}

func TestTimeoutAnswersAndLateResultCounts(t *testing.T) { // FX-10, FX-11, W8
	for _, obedient := range []int{0, 499, 500, -1} { // what it answers then: nothing; as connect does; a failure; it goes on
		t.Run(fmt.Sprintf("obedient=%d", obedient), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cause error
				release := make(chan struct{})
				r := newRig(t, stethttp.Config{Policy: stet.Policy{Execution: 200 * time.Millisecond}}, func(w http.ResponseWriter, req *http.Request) {
					<-req.Context().Done()
					cause = context.Cause(req.Context())
					switch {
					case obedient > 0:
						w.WriteHeader(obedient)
						return
					case obedient == 0:
						return
					}
					<-release
					created(w, req)
				})
				done := make(chan *http.Response)
				go func() { done <- r.post("k", "{}") }()
				time.Sleep(300 * time.Millisecond) // virtual time
				r.want(r.post("k", "{}"), 409, stethttp.OutcomeUnknown)
				close(release)
				r.want(<-done, 504, stethttp.ExecutionTimeout)
				if !errors.Is(cause, stet.ErrExecutionTimeout) {
					t.Errorf("cause %v", cause)
				}
				if obedient >= 0 {
					r.want(r.post("k", "{}"), 409, stethttp.OutcomeUnknown)
				} else {
					r.want(r.post("k", "{}"), 201, "")
				}
				r.wantRuns(1)
			})
		})
	}
}

func TestClientGoneChangesNothing(t *testing.T) { // W12, FX-08
	r := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, req *http.Request) {
		if req.Context().Err() != nil {
			t.Error("the handler's context ended with the client")
		}
		created(w, req)
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/charges", strings.NewReader("{}"))
	req.Header.Set("Idempotency-Key", "k")
	r.handler.ServeHTTP(httptest.NewRecorder(), req)
	r.wantRuns(1)
	if r.state("k") != stet.Completed {
		t.Errorf("state %v", r.state("k"))
	}
}

func TestHandlersOwnVerdict(t *testing.T) { // FX-04
	for _, by := range []string{"claim", "header"} {
		first := true
		r := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, req *http.Request) {
			if !first {
				created(w, req)
				return
			}
			first = false
			if by == "claim" {
				stet.ClaimFrom(req.Context()).NotExecuted("no-funds-reserved")
			} else {
				w.Header().Set("Stet-Outcome", "not-executed")
			}
			w.WriteHeader(503)
		})
		resp := r.post("k", "{}")
		r.want(resp, 503, "")
		if resp.Header.Get("Stet-Outcome") != "" {
			t.Error("Stet-Outcome was sent to the client")
		}
		r.want(r.post("k", "{}"), 201, "")
		r.want(r.post("k", "{}"), 201, "")
		r.wantRuns(2)
	}
}

func TestTruncatedResponseIsNeverAResult(t *testing.T) { // peers: idemlease replayed 32 KiB of 640
	r := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write(make([]byte, 10))
	})
	func() {
		defer func() {
			if got := recover(); got != http.ErrAbortHandler {
				t.Errorf("recovered %v: the client would take the rest for the whole", got)
			}
		}()
		r.post("k", "{}")
	}()
	r.want(r.post("k", "{}"), 409, stethttp.OutcomeUnknown)
}

func TestWritesAfterTheEndGoNowhere(t *testing.T) {
	var w http.ResponseWriter
	var body io.Reader
	r := newRig(t, stethttp.Config{}, func(rw http.ResponseWriter, req *http.Request) {
		w, body = rw, req.Body
		created(rw, req)
	})
	resp := r.post("k", `{"secret":1}`)
	if _, err := w.Write([]byte("late")); err == nil {
		t.Error("a write after the handler returned was taken")
	}
	if b, err := io.ReadAll(body); err == nil || len(b) > 0 {
		t.Errorf("the body was read after the end: %q, %v", b, err)
	}
	if b, _ := io.ReadAll(resp.Body); !bytes.Equal(b, []byte(`{"id": "ch_1"}`)) {
		t.Errorf("body %q", b)
	}
}

// TestHandlerThatObeysAtOnceLeavesNoResult: the handler may be back before the timer's goroutine
// has said that it is late.
func TestHandlerThatObeysAtOnceLeavesNoResult(t *testing.T) { // FX-10: a 200 that was never written was stored
	for range 200 {
		r := newRig(t, stethttp.Config{Policy: stet.Policy{Execution: time.Millisecond}}, func(_ http.ResponseWriter, req *http.Request) {
			for req.Context().Err() == nil { // back as fast as can be
				runtime.Gosched()
			}
		})
		r.want(r.post("k", "{}"), 504, stethttp.ExecutionTimeout)
		r.want(r.post("k", "{}"), 409, stethttp.OutcomeUnknown)
	}
}

// A client that reads a stream gets nothing of the layer's own into it when the run's time is over.
func TestTimeoutLeavesAStreamAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, stethttp.Config{Policy: stet.Policy{Execution: 200 * time.Millisecond}}, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "data: 1\n\n")
			<-req.Context().Done()
		})
		res := r.post("k", "{}")
		if body, err := io.ReadAll(res.Body); res.StatusCode != 503 || string(body) != "data: 1\n\n" || err != nil {
			t.Errorf("%d %q, %v", res.StatusCode, body, err)
		}
		r.want(r.post("k", "{}"), 409, stethttp.OutcomeUnknown)
		r.wantRuns(1)
	})
}

// I3, T3: the memory of a request's body serves other requests once a replay has begun. A handler
// that was overtaken and reads on gets an error, and no bytes.
func TestAnOvertakenHandlerReadsNoOtherBody(t *testing.T) {
	var n int
	var read error
	r := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, req *http.Request) {
		done := stet.Outcome{Response: stet.Response{Status: 201, Body: []byte("by itself")}}
		if err := stet.ClaimFrom(req.Context()).Settle(req.Context(), done); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK) // refused by the record, which is replayed
		n, read = req.Body.Read(make([]byte, 100))
	})
	res := r.post("k", "the request")
	if body, err := io.ReadAll(res.Body); res.StatusCode != 201 || string(body) != "by itself" || err != nil {
		t.Errorf("%d %q, %v", res.StatusCode, body, err)
	}
	if n != 0 || read == nil || read == io.EOF {
		t.Errorf("%d bytes were read, %v", n, read)
	}
}
