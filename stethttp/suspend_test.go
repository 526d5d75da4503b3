package stethttp_test

import (
	"bytes"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/stethttp"
)

// suspending is a guarded handler whose first run gives up for 20 seconds at a recovery point;
// later ones finish.
func suspending(t *testing.T, c stethttp.Config) *rig {
	c.Policy.OnLapse = stet.LapseResume
	return newRig(t, c, func(w http.ResponseWriter, r *http.Request) {
		claim := stet.ClaimFrom(r.Context())
		if claim.Attempt() > 1 {
			created(w, r)
			return
		}
		if err := claim.Suspend(r.Context(), stet.Step{Point: "charged", Progress: []byte("{}")}, 20*time.Second); err != nil {
			t.Errorf("Suspend: %v", err)
		}
		http.Error(w, "not finished", http.StatusServiceUnavailable) // it is not sent: the record says what is to be said
	})
}

// complete goes on with the record as a Completer does, and leaves body as its answer.
func (r *rig) complete(key, body string) error {
	d, err := r.engine.Operator().Resume(r.t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: stet.Key(key)})
	if err != nil {
		return err
	}
	return d.Claim.Settle(r.t.Context(), stet.Outcome{Response: stet.Response{Status: 201, Body: []byte(body)}})
}

func (r *rig) wantRetryAfter(resp *http.Response, seconds string) {
	r.t.Helper()
	if got := resp.Header.Get("Retry-After"); got != seconds {
		r.t.Errorf("Retry-After: %q, want %q", got, seconds)
	}
}

func TestSuspendedIsInProgress(t *testing.T) { // CR-14: a run that will go on has no unknown outcome
	synctest.Test(t, func(t *testing.T) {
		r := suspending(t, stethttp.Config{})
		first := r.post("k", "{}")
		r.wantRetryAfter(first, "20")
		r.want(first, 409, stethttp.InProgress)
		if r.state("k") != stet.Running {
			t.Fatalf("the record is %s", r.state("k"))
		}

		time.Sleep(8 * time.Second)
		again := r.post("k", "{}")
		r.wantRetryAfter(again, "12")
		r.want(again, 409, stethttp.InProgress)
		r.want(r.post("k", `{"other":1}`), 422, stethttp.KeyReused)
		r.wantRuns(1)

		time.Sleep(12 * time.Second)
		r.want(r.post("k", "{}"), 201, "") // it goes on by a retry ...
		r.wantRuns(2)
		r.want(r.post("k", "{}"), 201, "")
		r.wantRuns(2)
	})
}

func TestSuspendedIsCompletedWithoutItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := suspending(t, stethttp.Config{Waiting: stethttp.Accepted})
		first := r.post("k", "{}")
		r.wantRetryAfter(first, "20")
		r.want(first, 202, stethttp.InProgress)
		time.Sleep(20 * time.Second)
		if err := r.complete("k", "by the completer"); err != nil {
			t.Fatal(err)
		}
		replay := r.post("k", "{}")
		var b bytes.Buffer
		_, _ = b.ReadFrom(replay.Body)
		if replay.StatusCode != 201 || b.String() != "by the completer" || replay.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%d %q %v", replay.StatusCode, b.String(), replay.Header)
		}
		r.wantRuns(1)
	})
}

// Without a completer, waiting ends when the run may go on: who has waited has no body to run with,
// and comes again with one.
func TestWaitingForASuspendedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := suspending(t, stethttp.Config{Waiting: stethttp.Wait, WaitTimeout: 5 * time.Minute})
		began := time.Now()
		r.want(r.post("k", "{}"), 409, stethttp.InProgress) // the first request does not wait for itself
		if time.Since(began) != 0 {
			t.Errorf("the first request was answered after %s", time.Since(began))
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				resp := r.post("k", "{}")
				r.wantRetryAfter(resp, "1")
				if resp.StatusCode != 409 || time.Since(began) != 20*time.Second {
					t.Errorf("%d after %s, want 409 after 20 s", resp.StatusCode, time.Since(began))
				}
			})
		}
		wg.Wait()
		r.wantRuns(1)
	})
}

// Who waits while a completer works learns what it made of the record.
func TestWaitingForACompleter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := suspending(t, stethttp.Config{Waiting: stethttp.Wait, WaitTimeout: 5 * time.Minute})
		r.want(r.post("k", "{}"), 409, stethttp.InProgress)
		time.Sleep(20 * time.Second)
		d, err := r.engine.Operator().Resume(t.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		resumed := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if resp := r.post("k", "{}"); resp.StatusCode != 201 || time.Since(resumed) != 10*time.Second {
					t.Errorf("%d after %s, want 201 after 10 s", resp.StatusCode, time.Since(resumed))
				}
			})
		}
		time.Sleep(10 * time.Second)
		if err := d.Claim.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 201}}); err != nil {
			t.Error(err)
		}
		wg.Wait()
		r.wantRuns(1)
	})
}

// A holder that was overtaken by a run that still goes on knows no outcome, and neither does
// anybody else yet.
func TestOvertakenByARunThatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *rig
		r = newRig(t, stethttp.Config{Policy: stet.Policy{Rules: stet.Rules{OnLapse: stet.LapseResume}}}, func(w http.ResponseWriter, req *http.Request) {
			if err := stet.ClaimFrom(req.Context()).Suspend(req.Context(), stet.Step{Point: "charged"}, 0); err != nil {
				t.Errorf("Suspend: %v", err)
			}
			if _, err := r.engine.Operator().Resume(req.Context(), stet.ID{Scope: stethttp.DefaultScope, Key: "k"}); err != nil {
				t.Errorf("Resume: %v", err)
			}
			created(w, req)
		})
		r.want(r.post("k", "{}"), 409, stethttp.InProgress)
	})
}
