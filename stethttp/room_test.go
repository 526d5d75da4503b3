package stethttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
	"github.com/stet-dev/stet/store/memstore"
)

// A record whose large answer cannot be read is there: nothing runs, whatever the route does
// without a store.
func TestFailOpenNeverRunsForAnAnswerThatCannotBeRead(t *testing.T) { // I1, SF-03
	r := newRig(t, stethttp.Config{FailOpen: true}, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, big)) })
	r.want(r.post("k", "{}"), 200, "")
	r.store.noGet.Store(true)
	resp := r.post("k", "{}")
	r.want(resp, 503, stethttp.StoreUnavailable)
	if resp.Header.Get("Retry-After") != "1" {
		t.Error("without Retry-After")
	}
	r.wantRuns(1)
	r.store.noGet.Store(false)
	if resp = r.post("k", "{}"); resp.StatusCode != 200 || resp.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("then: %d", resp.StatusCode)
	}
}

// Neither does it run beside a run that goes on, when what that goes on with cannot be read.
func TestFailOpenNeverRunsForAPointThatCannotBeRead(t *testing.T) { // I1, SF-03
	synctest.Test(t, func(t *testing.T) {
		c := stethttp.Config{FailOpen: true}
		c.Policy.OnLapse = stet.LapseResume
		r := newRig(t, c, func(w http.ResponseWriter, r *http.Request) {
			claim := stet.ClaimFrom(r.Context())
			if claim.Attempt() == 1 {
				if err := claim.Suspend(r.Context(), stet.Step{Point: "charged", Progress: make([]byte, big)}, 20*time.Second); err != nil {
					t.Errorf("Suspend: %v", err)
				}
				return
			}
			created(w, r)
		})
		r.want(r.post("k", "{}"), 409, stethttp.InProgress)
		time.Sleep(20 * time.Second) // virtual
		r.store.noGet.Store(true)
		r.want(r.post("k", "{}"), 503, stethttp.StoreUnavailable)
		r.wantRuns(1)
		r.store.noGet.Store(false)
		r.want(r.post("k", "{}"), 201, "")
		r.wantRuns(2)
	})
}

// A small stored answer is held, too, for as long as its client takes to read it.
func TestSmallReplaysToSlowReadersCount(t *testing.T) { // C11
	const small = 50_000
	w := newTenants(t, stethttp.LimitsConfig{MaxBufferedBytes: 1 << 17, SharePerScope: 1, SmallReserve: 1})
	w.want(201, "the first", w.post("s", "k", small))
	leave := make(chan struct{})
	slow := stalled{httptest.NewRecorder(), make(chan struct{}), leave}
	done := make(chan struct{})
	r := w.request("s", "k", strings.NewReader(strings.Repeat("x", small)), small)
	go func() {
		defer close(done)
		w.handler.ServeHTTP(slow, r)
	}()
	if <-slow.full; w.limits.Buffered() != small {
		t.Errorf("%d bytes are held for a client that does not read, want %d", w.limits.Buffered(), small)
	}
	close(leave)
	<-done
}

// The retry's own body is not held while its answer is: the bound has room for either.
func TestARetryIsNotHeldBesideItsAnswer(t *testing.T) { // C11
	w := newTenants(t, stethttp.LimitsConfig{})
	w.want(201, "the first", w.post("s", "big", big))
	if err := w.limits.Set(stethttp.LimitsConfig{MaxBufferedBytes: 3 << 19, SharePerScope: 1}); err != nil {
		t.Fatal(err)
	}
	w.want(201, "a replay", w.post("s", "big", big))
	if n := w.limits.Buffered(); n != 0 {
		t.Errorf("%d bytes are held in the end", n)
	}
}

// passing is a store in which a record vanishes, or becomes another, before its body is read.
type passing struct {
	stet.Store
	before atomic.Pointer[func(id stet.ID)]
}

func (s *passing) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	if f := s.before.Swap(nil); f != nil {
		(*f)(id)
	}
	return s.Store.Get(ctx, id)
}

func TestAnAnswerThatVanishesBeforeItIsRead(t *testing.T) { // I1
	s := &passing{Store: memstore.New(memstore.Config{})}
	e, err := stet.New(s, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	limits := stethttp.NewLimits(stethttp.LimitsConfig{})
	r := &rig{t: t, engine: e}
	r.handler = stethttp.Middleware(e, stethttp.SingleTenant, stethttp.Config{Limits: limits})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r.runs.Add(1)
		_, _ = w.Write(make([]byte, big))
	}))
	r.want(r.post("k", "{}"), 200, "")
	vanishes := func(id stet.ID) {
		have, err := s.Store.Get(t.Context(), id)
		if err == nil {
			err = s.Store.Delete(t.Context(), id, have.Version)
		}
		if err != nil {
			t.Error(err)
		}
	}
	s.before.Store(&vanishes)
	resp := r.post("k", "{}")
	r.want(resp, 409, stethttp.InProgress)
	if resp.Header.Get("Retry-After") != "1" || limits.Buffered() != 0 {
		t.Errorf("Retry-After is %q, and %d bytes are held", resp.Header.Get("Retry-After"), limits.Buffered())
	}
	r.wantRuns(1)
	r.want(r.post("k", "{}"), 200, "")
	r.wantRuns(2)
	changes := func(id stet.ID) {
		have, err := s.Store.Get(t.Context(), id)
		if err != nil {
			t.Error(err)
		}
		next := have.Head
		next.Version, next.DueIn = 7, stet.Never
		if _, err := s.Store.Replace(t.Context(), have.Version, next, &stet.Body{Response: &stet.Response{Status: 202, Body: []byte(strings.Repeat("y", big))}}); err != nil {
			t.Error(err)
		}
	}
	s.before.Store(&changes)
	if resp := r.post("k", "{}"); resp.StatusCode != 202 || resp.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("another answer: %d", resp.StatusCode)
	}
	r.wantRuns(2)
}
