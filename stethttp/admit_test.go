package stethttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
)

func limited(c stethttp.LimitsConfig) stethttp.Config {
	return stethttp.Config{Limits: stethttp.NewLimits(c)}
}

// TestRetryAfterOfABucketIsTrue: who waits as long as it was told to is let through, however many
// others was refused meanwhile: what was refused leaves no debt.
func TestRetryAfterOfABucketIsTrue(t *testing.T) { // E01, C08
	for _, rate := range []float64{5, 0.7, 0.3, 0.09} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, limited(stethttp.LimitsConfig{NewKeysPerSecond: rate, Burst: 3}), created)
			var crowd sync.WaitGroup
			for i := range 200 {
				crowd.Go(func() { r.post("crowd-"+strconv.Itoa(i), "{}") })
			}
			crowd.Wait()
			r.wantRuns(3)
			for i := range 20 {
				resp := r.post("one", "{}")
				r.want(resp, 429, stethttp.RateLimited)
				after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
				if least := min(30, int(1/rate)); err != nil || after < 1 || after > least+1 {
					t.Fatalf("Retry-After: %q at %v a second", resp.Header.Get("Retry-After"), rate)
				}
				if i == 19 {
					time.Sleep(time.Duration(after) * time.Second)
				}
			}
			r.want(r.post("one", "{}"), 201, "")
			r.want(r.post("crowd-known", "{}"), map[bool]int{true: 201, false: 429}[rate > 1], "")
		})
	}
}

// TestRepeatsPassAShutLimit: what is known is answered as ever, and asks for no token; what is
// refused is stored nowhere and costs nothing.
func TestRepeatsPassAShutLimit(t *testing.T) { // E01, E02
	for name, c := range map[string]stethttp.LimitsConfig{"rate": {NewKeysPerSecond: 0.001, Burst: 2}, "quota": {MaxKeysPerScope: 2}, "total": {MaxKeys: 2}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hold := make(chan struct{})
				r := newRig(t, limited(c), func(w http.ResponseWriter, r *http.Request) {
					switch r.Header.Get("Idempotency-Key") {
					case "runs":
						<-hold
					case "failed":
						w.WriteHeader(http.StatusTooManyRequests) // nothing happened
						return
					}
					w.WriteHeader(http.StatusCreated)
				})
				done := make(chan struct{})
				go func() { defer close(done); r.post("runs", "{}") }()
				synctest.Wait()
				r.want(r.post("failed", "{}"), 429, "")
				r.want(r.post("new", "{}"), 429, map[bool]stethttp.Code{true: stethttp.RateLimited, false: stethttp.KeyQuotaExceeded}[name == "rate"])
				r.want(r.post("runs", "{}"), 409, stethttp.InProgress)
				r.want(r.post("runs", "[]"), 422, stethttp.KeyReused)
				r.want(r.post("failed", "{}"), 429, "") // a retry, which runs
				close(hold)
				<-done
				counts := r.calls("count")
				for range 10 {
					if resp := r.post("runs", "{}"); resp.StatusCode != 201 || resp.Header.Get("Idempotent-Replayed") == "" {
						t.Fatalf("a replay: %s", resp.Status)
					}
				}
				if n := r.calls("count"); n != counts {
					t.Errorf("ten replays had the store count %d times", n-counts)
				}
				r.wantRuns(3)
				if _, err := r.engine.Get(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: "new"}); err == nil {
					t.Error("what was refused is stored")
				}
			})
		})
	}
}

// TestOwnRecordsTakeNoPlace: records of Stet's own, such as those of gateways' figures, leave the
// clients all the keys that they may have.
func TestOwnRecordsTakeNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, limited(stethttp.LimitsConfig{MaxKeys: 2}), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
		for i := range 5 {
			d, err := r.engine.Begin(t.Context(), stet.Request{ID: stet.ID{Scope: stet.OwnScope, Key: stet.Key(fmt.Sprint("figures_", i))}})
			if err != nil {
				t.Fatal(err)
			}
			d.Claim.Completed()
			if err := d.Claim.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 200}}); err != nil {
				t.Fatal(err)
			}
		}
		for _, key := range []string{"one", "two"} {
			r.want(r.post(key, "{}"), 201, "")
		}
		r.want(r.post("three", "{}"), 429, stethttp.KeyQuotaExceeded)
	})
}

func (r *rig) calls(op string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == stet.StoreCall && e.Op == op {
			n++
		}
	}
	return n
}

// TestRateLimitHeaders: first answers and refusals say how the scope stands, in the draft's form;
// replays do not, and where there is no rate no answer does.
func TestRateLimitHeaders(t *testing.T) { // E02
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, limited(stethttp.LimitsConfig{NewKeysPerSecond: 2, Burst: 5}), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("RateLimit", `"own";r=7`)
			w.WriteHeader(http.StatusCreated)
		})
		want := func(resp *http.Response, policy, state string) {
			t.Helper()
			if got := strings.Join(resp.Header["Ratelimit-Policy"], ", "); got != policy {
				t.Errorf("RateLimit-Policy: %s, want %s", got, policy)
			}
			if got := strings.Join(resp.Header["Ratelimit"], ", "); got != state {
				t.Errorf("RateLimit: %s, want %s", got, state)
			}
		}
		const policy = `"new-keys";q=5;w=3`
		for i := range 5 { // a first answer is as its replays are
			want(r.post("k"+strconv.Itoa(i), "{}"), "", `"own";r=7`)
		}
		refused := r.post("k5", "{}")
		want(refused, policy, `"new-keys";r=0;t=1`)
		if got := refused.Header.Get("Retry-After"); got != "1" {
			t.Errorf("Retry-After: %s", got)
		}
		want(r.post("k0", "{}"), "", "") // what the handler said was of that moment, too
		r = newRig(t, limited(stethttp.LimitsConfig{MaxKeysPerScope: 1}), created)
		want(r.post("k0", "{}"), "", "")
		want(r.post("k1", "{}"), "", "")
	})
}

// TestStrangersAreBounded: who does not say whose its requests are gets 401, and 429 where it does
// not stop; no other caller does.
func TestStrangersAreBounded(t *testing.T) { // E02
	synctest.Test(t, func(t *testing.T) {
		c := limited(stethttp.LimitsConfig{UnauthenticatedPerSecond: 3})
		h := stethttp.Middleware(newEngine(), stethttp.HeaderScope("X-Tenant"), c)(http.HandlerFunc(created))
		ask := func(addr, tenant, key string) *http.Response {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/charges", strings.NewReader("{}"))
			req.RemoteAddr = addr
			req.Header.Set("Idempotency-Key", key)
			if tenant != "" {
				req.Header.Set("X-Tenant", tenant)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			return w.Result()
		}
		for i, want := range []int{401, 401, 401, 429, 429} {
			resp := ask(fmt.Sprint("192.0.2.1:", 1000+i), "", "k")
			if resp.StatusCode != want || (resp.Header.Get("Retry-After") == "1") != (want == 429) || resp.Header.Get("Idempotency-Key") != `"k"` {
				t.Errorf("request %d: %s, %v", i, resp.Status, resp.Header)
			}
		}
		if resp := ask("192.0.2.1:9", "acme", "k"); resp.StatusCode != 201 {
			t.Errorf("the same address, which says whose it is: %s", resp.Status)
		}
		if resp := ask("192.0.2.2:9", "", "k"); resp.StatusCode != 401 {
			t.Errorf("another address: %s", resp.Status)
		}
		time.Sleep(time.Second)
		if resp := ask("192.0.2.1:9", "", "k"); resp.StatusCode != 401 {
			t.Errorf("a second later: %s", resp.Status)
		}
	})
}
