package stet_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
)

// shelved runs a test in virtual time, on a fakeStore.
func shelved(t *testing.T, c stet.Config, test func(t *testing.T, s *fakeStore, e *stet.Engine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStore{}
		e, err := stet.New(s, c)
		if err != nil {
			t.Fatal(err)
		}
		test(t, s, e)
		s.mend() // what the engine still has to store would go on for ever
		if err := e.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// must is a Begin that has to end with the verdict.
func must(t *testing.T, e *stet.Engine, q stet.Request, want stet.Verdict) stet.Decision {
	t.Helper()
	return (&house{t: t, Engine: e}).begin(q, want)
}

var errLost = errors.New("connection reset")

func TestHeldContextEndsOnTimeWhileTheStoreHangs(t *testing.T) { // I13, W8, W9
	for _, c := range []struct {
		name   string
		policy stet.Policy
		want   time.Duration
		cause  error
	}{
		{"lease", stet.Policy{Lease: 3 * time.Second, Execution: stet.Never}, 2700 * time.Millisecond, stet.ErrLeaseLost},
		{"a long lease", stet.Policy{Lease: 15 * time.Second, Execution: stet.Never}, 13500 * time.Millisecond, stet.ErrLeaseLost},
		{"execution", stet.Policy{Lease: 6 * time.Second, Execution: 3 * time.Second}, 3 * time.Second, stet.ErrExecutionTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, stet.Config{Policy: c.policy}, func(h *house) {
				d := h.begin(request("k"), stet.Execute)
				began := time.Now()
				held := d.Claim.Hold(h.t.Context(), nil)
				h.store.Slow(time.Hour)
				<-held.Done()
				if took := time.Since(began); took != c.want || context.Cause(held) != c.cause {
					h.t.Errorf("the context ended after %v with %v; want %v", took, context.Cause(held), c.want)
				}
				h.store.Up()
				h.settle(d.Claim)
			})
		})
	}
}

// The timer waits for the claim's lock here, which virtual time does not wait for: this one runs in
// real time.
func TestHeldContextEndsWhileItsHandlerWaitsForTheStore(t *testing.T) { // I13
	h := newHouse(t, stet.Config{Policy: stet.Policy{Lease: 200 * time.Millisecond, Execution: stet.Never}, StoreTimeout: time.Hour})
	d := h.begin(request("k"), stet.Execute)
	held := d.Claim.Hold(t.Context(), nil)
	h.store.Slow(time.Hour)
	_ = d.Claim.Step(t.Context(), stet.Step{Point: "p"}) // not for an hour: for what is left of the lease
	<-held.Done()
	if context.Cause(held) != stet.ErrLeaseLost {
		t.Error(context.Cause(held))
	}
}

func TestALeaseCountsFromTheFirstTryToReserve(t *testing.T) { // I13: local clocks only shorten
	shelved(t, stet.Config{Policy: stet.Policy{Lease: 3 * time.Second, Execution: stet.Never}}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		s.after = func(verb string, n int) error {
			if verb == "create" && n == 1 {
				after(time.Second)
				return errLost
			}
			return nil
		}
		began := time.Now()
		d := must(t, e, request("k"), stet.Execute)
		s.before = func(string, int) error { return errLost }
		held := d.Claim.Hold(t.Context(), nil)
		<-held.Done()
		if end := began.Add(3 * time.Second); !time.Now().Before(end) {
			t.Errorf("the context ended %v after the lease in the store", time.Since(end))
		}
	})
}

func TestAReservationThatIsAsGoodAsOverIsGivenBack(t *testing.T) { // I13, W2
	shelved(t, stet.Config{Policy: stet.Policy{Lease: time.Second}}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		s.after = func(string, int) error { after(950 * time.Millisecond); return nil }
		d, err := e.Begin(t.Context(), request("k"))
		if !errors.Is(err, stet.ErrUnsettled) || d.Claim != nil {
			t.Fatalf("%v, %v", d.Verdict, err)
		}
		if err := e.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r, _ := s.read(request("k").ID); r.State != stet.Retryable || r.Cause != stet.CauseGivenUp || !r.Over() {
			t.Errorf("the reservation is %v, %q, over %v", r.State, r.Cause, r.Over())
		}
	})
}

func TestSettleAsUnknownTwiceAndOnceMore(t *testing.T) { // FX-11: late, by the same holder, before any other decision
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		c := must(t, e, request("k"), stet.Execute).Claim
		c.Unknown("timeout")
		for range 2 {
			if err := c.Settle(t.Context(), stet.Outcome{}); err != nil {
				t.Fatal(err)
			}
		}
		s.change(c.ID(), func(r *stet.Record) { r.Version++; r.Probes++ }) // a probe by another process
		c.Completed()
		if err := c.Settle(t.Context(), result("late")); err != nil {
			t.Errorf("Settle after a probe that found nothing: %v", err)
		}
		must(t, e, request("k"), stet.Replay)
	})
}

func TestALateResultIsEvidenceAfterAnothersDoubt(t *testing.T) { // SF-05, I3
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		c := must(t, e, request("k"), stet.Execute).Claim
		after(stet.DefaultLease)
		must(t, e, request("k"), stet.Unresolved)
		before, _ := s.read(c.ID())
		if err := c.Settle(t.Context(), result("late")); !errors.Is(err, stet.ErrFenced) {
			t.Errorf("Settle after the lapse was told: %v", err)
		}
		now, _ := s.read(c.ID())
		if now.State != stet.Unknown || now.CompletedAt != before.CompletedAt {
			t.Errorf("a stale holder changed the record: %v", now.State)
		}
		if now.Note == nil || now.Note.Evidence == "" || string(now.Response.Body) != "late" {
			t.Errorf("what it knew is lost: %+v", now.Note)
		}
	})
}

func TestRetentionFromCreationAfterUnknown(t *testing.T) { // TT-05
	rules := stet.Rules{Retain: time.Hour, FromCreation: true}
	shelved(t, stet.Config{Policy: stet.Policy{Rules: rules}}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		began := time.Now()
		c := must(t, e, request("k"), stet.Execute).Claim
		after(25 * time.Second)
		c.Unknown("timeout")
		if err := c.Settle(t.Context(), stet.Outcome{}); err != nil {
			t.Fatal(err)
		}
		after(15 * time.Second)
		c.Completed()
		if err := c.Settle(t.Context(), result("late")); err != nil {
			t.Fatal(err)
		}
		if r, _ := s.read(c.ID()); !r.DueAt.Equal(began.Add(time.Hour)) {
			t.Errorf("kept until %v after creation, want an hour", r.DueAt.Sub(began))
		}
	})
}

func TestPointAndProgressAreStoredTogether(t *testing.T) { // I11, CR-14
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		c := must(t, e, request("k"), stet.Execute).Claim
		buffer := []byte("A")
		if err := c.Step(t.Context(), stet.Step{Point: "a", Progress: buffer}); err != nil {
			t.Fatal(err)
		}
		buffer[0] = '?' // the caller's again
		s.after = func(string, int) error { return errLost }
		if err := c.Step(t.Context(), stet.Step{Point: "b", Progress: []byte("B")}); err == nil {
			t.Fatal("a Step without an answer succeeded")
		}
		if r, _ := s.read(c.ID()); string(r.Progress) != "B" {
			t.Fatalf("it was to happen without an answer: %q", r.Progress)
		}
		s.after = nil
		if err := c.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r, _ := s.read(c.ID()); r.Point != "a" || string(r.Progress) != "A" {
			t.Errorf("point %q with progress %q", r.Point, r.Progress)
		}
	})
}

func TestHoldAfterSettle(t *testing.T) {
	bubble(t, stet.Config{}, func(h *house) {
		c := h.begin(request("k"), stet.Execute).Claim
		h.settle(c)
		held := c.Hold(h.t.Context(), lostFunc(func(err error) { h.t.Errorf("lost: %v", err) }))
		if held.Err() == nil || c.Ended() != nil {
			h.t.Errorf("a settled claim is held: %v, ended by %v", held.Err(), c.Ended())
		}
		after(time.Hour)
		if n := h.saw(func(e stet.Event) bool { return e.Kind == stet.LeaseLost }); n != 0 {
			h.t.Error("a lease was lost that nobody held")
		}
	})
}

func TestClaimIsSafeForConcurrentUse(t *testing.T) { // with -race
	e, err := stet.New(&fakeStore{}, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := must(t, e, request("k"), stet.Execute).Claim
	held := c.Hold(t.Context(), nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				_ = c.ID()
				_, _, _, _ = c.Fence(), c.Attempt(), c.Stated(), c.Ended()
				_, _ = held.Err(), stet.ClaimFrom(held)
			}
		})
		wg.Go(func() {
			for i := range 50 {
				_ = c.Renew(t.Context())
				_ = c.Step(t.Context(), stet.Step{Point: fmt.Sprint(i)})
				c.NotExecuted("x")
				c.Completed()
			}
		})
	}
	wg.Wait()
	if err := c.Settle(t.Context(), result("ok")); err != nil {
		t.Error(err)
	}
}

func TestAClaimHidesItsKey(t *testing.T) { // SE-07
	e, err := stet.New(&fakeStore{}, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	d := must(t, e, request("canary-0123456789"), stet.Execute)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q"} {
		for _, v := range []any{d.Claim, d, &d} {
			if out := fmt.Sprintf(verb, v); strings.Contains(out, "canary") || strings.Contains(out, fmt.Sprintf("%x", "canary")) {
				t.Errorf("%s of a %T: %s", verb, v, out)
			}
		}
	}
}

func TestAlarmsAreUsedAgainAndRingForTheirClaimOnly(t *testing.T) {
	bubble(t, stet.Config{Policy: stet.Policy{Lease: 3 * time.Second, Execution: stet.Never}}, func(h *house) {
		for i := range 50 { // each settles at the moment at which its heartbeat comes
			c := h.begin(request(fmt.Sprint(i)), stet.Execute).Claim
			c.Hold(h.t.Context(), lostFunc(func(err error) { h.t.Errorf("lost: %v", err) }))
			after(time.Second)
			h.settle(c)
		}
		synctest.Wait()
		if n := runtime.NumGoroutine(); n > 20 {
			h.t.Errorf("%d goroutines", n)
		}
	})
}

func TestHoldStopsAtTheInstantTheHeartbeatComes(t *testing.T) { // races of Settle, heartbeat and the end of the lease
	for _, at := range []time.Duration{time.Second, 2700 * time.Millisecond, 3 * time.Second} {
		bubble(t, stet.Config{Policy: stet.Policy{Lease: 3 * time.Second, Execution: stet.Never}}, func(h *house) {
			d := h.begin(request("k"), stet.Execute)
			held := d.Claim.Hold(h.t.Context(), nil)
			if at > time.Second {
				h.store.Down()
			}
			after(at)
			h.store.Up()
			h.settle(d.Claim)
			if held.Err() == nil {
				h.t.Error("the context outlives the claim")
			}
			h.begin(request("k"), stet.Replay)
		})
	}
}
