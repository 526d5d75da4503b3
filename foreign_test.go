package stet_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// A store that is not the one that it was grants no execution, and what it has is answered.
func TestAForeignStore(t *testing.T) { // S03
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		done := must(t, e, request("done"), stet.Execute).Claim
		if err := done.Settle(t.Context(), result("first")); err != nil {
			t.Fatal(err)
		}
		free := must(t, e, request("free"), stet.Execute).Claim
		free.NotExecuted("declined")
		if err := free.Settle(t.Context(), stet.Outcome{}); err != nil {
			t.Fatal(err)
		}
		runs := must(t, e, request("runs"), stet.Execute).Claim
		s.mu.Lock()
		s.before = func(verb string, _ int) error {
			if verb == "get" || verb == "due" {
				return nil
			}
			return stet.ErrForeign
		}
		writes := s.calls["create"] + s.calls["replace"]
		s.mu.Unlock()
		if d := must(t, e, request("done"), stet.Replay); string(d.Record.Response.Body) != "first" {
			t.Errorf("it replays %q", d.Record.Response.Body)
		}
		must(t, e, other("done"), stet.Mismatch)
		must(t, e, request("runs"), stet.InProgress)
		for _, key := range []string{"new", "free"} {
			began := time.Now()
			d, err := e.Begin(t.Context(), request(key))
			if !errors.Is(err, stet.ErrUnsettled) || !errors.Is(err, stet.ErrForeign) || d.Verdict != 0 {
				t.Errorf("%s: %v, %v", key, d.Verdict, err)
			}
			if took := time.Since(began); took > 0 {
				t.Errorf("%s: it was tried for %v", key, took)
			}
		}
		after(time.Second)
		s.mu.Lock()
		writes = s.calls["create"] + s.calls["replace"] - writes
		s.mu.Unlock()
		if writes != 6 {
			t.Errorf("%d writes were tried by five requests: nothing has to be taken back", writes)
		}
		if err := runs.Settle(t.Context(), result("late")); !errors.Is(err, stet.ErrForeign) {
			t.Error(err)
		}
		if n, _ := e.Unstored(); n != 1 {
			t.Errorf("%d results are kept", n)
		}
		s.mend() // it was accepted
		after(2 * time.Minute)
		if d := must(t, e, request("runs"), stet.Replay); string(d.Record.Response.Body) != "late" {
			t.Errorf("it replays %q", d.Record.Response.Body)
		}
		must(t, e, request("new"), stet.Execute)
	})
}

// A store that has too much to do is asked again, and nothing has to be taken back.
func TestABusyStore(t *testing.T) { // S17
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		s.before = func(verb string, n int) error {
			if n < 3 {
				return stet.ErrBusy
			}
			return nil
		}
		c := must(t, e, request("k"), stet.Execute).Claim
		if n := s.count("create"); n != 3 {
			t.Errorf("it was created by %d calls", n)
		}
		if err := c.Settle(t.Context(), result("done")); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		s.before = func(string, int) error { return stet.ErrBusy }
		s.calls["create"], s.calls["replace"] = 0, 0
		s.mu.Unlock()
		if _, err := e.Begin(t.Context(), request("new")); !errors.Is(err, stet.ErrUnsettled) || !errors.Is(err, stet.ErrBusy) {
			t.Error(err)
		}
		tried := s.count("create")
		after(time.Minute)
		if n := s.count("create") + s.count("replace"); n != tried || tried < 2 {
			t.Errorf("%d calls, and %d after the request had ended", tried, n-tried)
		}
	})
}
