package stethttp_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
)

// lasting is a handler whose work goes on for as long as it says after its time was over, and then
// does what end says.
type lasting struct {
	look, work time.Duration
	end        func(w http.ResponseWriter, c *stet.Claim)
}

func (lasting) Lasts() {}

func (l lasting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	<-r.Context().Done()
	time.Sleep(l.look)
	claim := stet.ClaimFrom(r.Context())
	own := w.(interface {
		GoOn() bool
		Returned(crashed bool)
	})
	if l.work == 0 || !own.GoOn() {
		l.end(w, claim)
		return
	}
	go func() {
		crashed := true
		defer func() {
			_ = recover()
			own.Returned(crashed)
		}()
		time.Sleep(l.work)
		l.end(w, claim)
		crashed = false
	}()
}

// A handler that says that it lasts is waited for when its time is over: what it has then is the
// answer, and what it has later is the result. The end of its context is no excuse for a failure.
func TestLastingHandlers(t *testing.T) { // N04, K14, H12
	says := func(status int) func(http.ResponseWriter, *stet.Claim) {
		return func(w http.ResponseWriter, _ *stet.Claim) { w.WriteHeader(status) }
	}
	for name, row := range map[string]struct {
		lasting
		status int
		state  stet.State
	}{
		"it has the answer":   {lasting{time.Second, 0, says(201)}, 201, stet.Completed},
		"it has a failure":    {lasting{time.Second, 0, says(500)}, 500, stet.Completed},
		"it knows better":     {lasting{time.Second, 0, func(w http.ResponseWriter, c *stet.Claim) { c.NotExecuted("unsent"); w.WriteHeader(502) }}, 502, stet.Retryable},
		"it looks too long":   {lasting{time.Minute, 0, says(201)}, 504, stet.Completed},
		"it goes on":          {lasting{0, time.Hour, says(201)}, 504, stet.Completed},
		"it goes on, fails":   {lasting{0, time.Hour, says(500)}, 504, stet.Completed},
		"it goes on, refuses": {lasting{0, time.Hour, says(429)}, 504, stet.Retryable},
		"it goes on, is lost": {lasting{0, time.Hour, func(http.ResponseWriter, *stet.Claim) { panic(http.ErrAbortHandler) }}, 504, stet.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, stethttp.Config{Policy: stet.Policy{Execution: time.Second}}, nil)
				g, err := stethttp.New(r.engine, stethttp.SingleTenant, stethttp.Config{Policy: stet.Policy{Execution: time.Second}})
				if err != nil {
					t.Fatal(err)
				}
				r.handler = g.Wrap(row.lasting)
				began := time.Now()
				res := r.post("k", "{}")
				if took := time.Since(began); res.StatusCode != row.status || row.status == 504 && row.look == 0 && took != time.Second {
					t.Errorf("%d after %s", res.StatusCode, took)
				}
				if closes := res.Header.Get("Connection") == "close"; closes != (row.look > time.Second) {
					t.Errorf("the connection is closed: %t", closes)
				}
				if row.work > 0 && r.state("k") != stet.Unknown {
					t.Errorf("while it goes on: %v", r.state("k"))
				}
				time.Sleep(2 * row.work)
				if have := r.state("k"); have != row.state {
					t.Errorf("%v", have)
				}
			})
		})
	}
}
