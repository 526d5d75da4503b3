package stethttp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
)

// slashed is an API that serves /pay/ and sends /pay there.
func slashed(status int) func(w http.ResponseWriter, r *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/pay" {
			w.Header().Set("Location", "/pay/")
			w.WriteHeader(status)
			return
		}
		created(w, r)
	}
}

func (r *rig) postTo(path, key string) *http.Response {
	req := httptest.NewRequestWithContext(r.t.Context(), http.MethodPost, path, strings.NewReader("{}"))
	req.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	return w.Result()
}

// A client that follows with the same method, key and body runs where it is sent to. What says so
// is no result, unless the policy says that it is one.
func TestRedirectsForgetTheKey(t *testing.T) { // Q02
	for _, status := range []int{307, 308} {
		r := newRig(t, stethttp.Config{}, slashed(status))
		for range 2 { // it may also ask the first place again
			r.want(r.postTo("/pay", "k"), status, "")
		}
		first := r.postTo("/pay/", "k")
		r.want(first, 201, "")
		r.want(r.postTo("/pay/", "k"), 201, "")
		r.wantRuns(3)
		r.want(r.postTo("/pay", "k"), 422, stethttp.KeyReused)

		r = newRig(t, stethttp.Config{StatusOutcome: map[int]stet.State{status: stet.Completed}}, slashed(status))
		r.want(r.postTo("/pay", "k"), status, "")
		r.want(r.postTo("/pay", "k"), status, "")
		r.wantRuns(1)
	}
	for _, status := range []int{301, 302, 303} { // they ask for a GET, or do not say what to follow with
		r := newRig(t, stethttp.Config{}, slashed(status))
		r.want(r.postTo("/pay", "k"), status, "")
		r.want(r.postTo("/pay", "k"), status, "")
		r.wantRuns(1)
	}
}

// An answer that says nothing of where is no redirection: an API that takes an upload in parts has
// the part.
func TestA308WithoutALocation(t *testing.T) {
	r := newRig(t, stethttp.Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Range", "bytes=0-4")
		w.WriteHeader(http.StatusPermanentRedirect)
	})
	r.want(r.postTo("/upload", "k"), 308, "")
	r.want(r.postTo("/upload", "k"), 308, "")
	r.wantRuns(1)
}

// A client that follows a redirection by itself pays once.
func TestClientsFollowWithTheirKey(t *testing.T) { // Q02
	r := newRig(t, stethttp.Config{}, slashed(308))
	ask(t, serve(t, r.handler)+"/pay", "{}", key1).want(t, 201, "")
	r.wantRuns(2)
}

// An API that states what its redirection means, and one whose handler says so in Go, free the key
// as well: what was stated is that nothing happened here.
func TestStatedRedirections(t *testing.T) { // Q02
	for name, c := range map[string]stethttp.Config{
		"by the API":    {},
		"by the status": {NoStoreStatus: []int{307}},
		"by the policy": {StatusOutcome: map[int]stet.State{307: stet.Retryable}},
	} {
		r := newRig(t, c, func(w http.ResponseWriter, req *http.Request) {
			if name == "by the API" && req.URL.Path == "/pay" {
				w.Header().Set("Stet-Outcome", "not-executed")
			}
			slashed(307)(w, req)
		})
		r.want(r.postTo("/pay", "k"), 307, "")
		if got := r.postTo("/pay/", "k"); got.StatusCode != 201 {
			t.Errorf("%s: then %d", name, got.StatusCode)
		}
	}
	b := newBank()
	r := &rig{t: t, handler: till(t, b, stethttp.Config{}, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/pay" {
			stet.ClaimFrom(req.Context()).NotHere("moved")
			w.WriteHeader(http.StatusConflict)
			return
		}
		created(w, req)
	})}
	r.want(r.postTo("/pay", "k"), 409, "")
	r.want(r.postTo("/pay/", "k"), 201, "")
	if b.charges != 1 {
		t.Errorf("%d charges", b.charges)
	}
}

// In a transaction nothing of the redirected request is committed.
func TestAtomicRedirects(t *testing.T) { // Q02
	b := newBank()
	h := till(t, b, stethttp.Config{}, slashed(307))
	r := &rig{t: t, handler: h}
	r.want(r.postTo("/pay", "k"), 307, "")
	if b.charges != 0 {
		t.Errorf("%d charges", b.charges)
	}
	r.want(r.postTo("/pay/", "k"), 201, "")
	r.want(r.postTo("/pay/", "k"), 201, "")
	if b.charges != 1 {
		t.Errorf("%d charges", b.charges)
	}
}

// One that waits for a request that is sent elsewhere has nothing to wait for any more, and is sent
// there when it asks again.
func TestWaitersOfARedirection(t *testing.T) { // Q02
	synctest.Test(t, func(t *testing.T) {
		going := make(chan struct{})
		r := newRig(t, stethttp.Config{Waiting: stethttp.Wait}, func(w http.ResponseWriter, req *http.Request) {
			<-going
			slashed(307)(w, req)
		})
		first, waiter := make(chan *http.Response, 1), make(chan *http.Response, 1)
		go func() { first <- r.postTo("/pay", "k") }()
		synctest.Wait()
		go func() { waiter <- r.postTo("/pay", "k") }()
		synctest.Wait()
		close(going)
		r.want(<-first, 307, "")
		r.want(<-waiter, 409, stethttp.InProgress)
		r.wantRuns(1)
		r.want(r.postTo("/pay", "k"), 307, "")
		r.want(r.postTo("/pay/", "k"), 201, "")
	})
}

// 421 says that nothing happened; what else does may be any status from 300.
func TestMisdirected(t *testing.T) { // Q02
	r := newRig(t, stethttp.Config{}, slashed(421))
	r.want(r.postTo("/pay", "k"), 421, "")
	if r.state("k") != stet.Retryable {
		t.Errorf("it is %s", r.state("k"))
	}
	if err := (stethttp.Config{NoStoreStatus: []int{300, 303, 307}}).Validate(); err != nil {
		t.Error(err)
	}
	if err := (stethttp.Config{NoStoreStatus: []int{299}}).Validate(); err == nil {
		t.Error("299 means that nothing happened")
	}
}
