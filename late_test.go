package stet_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

func TestLateResultsAreEvidence(t *testing.T) { // SF-05, FX-11, CR-02, I3
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		c := must(t, e, request("k"), stet.Execute).Claim
		after(stet.DefaultLease)
		if n, _, err := e.Operator().Sweep(t.Context(), "", 0); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if err := c.Settle(t.Context(), result("paid")); !errors.Is(err, stet.ErrFenced) {
			t.Fatal(err)
		}
		r, _ := s.read(c.ID())
		if r.State != stet.Unknown || r.Cause != "lease-lapsed" || r.Status != 201 || string(r.Response.Body) != "paid" || !r.Over() {
			t.Errorf("%+v", r)
		}
		if r.Note == nil || !strings.Contains(r.Note.Evidence, "answered 201, with 4 bytes") || r.Note.Who != r.Holder {
			t.Errorf("%+v", r.Note)
		}
		if d := must(t, e, request("k"), stet.Unresolved); d.Claim != nil { // no request gets it
			t.Error("a claim")
		}
		must(t, e, other("k"), stet.Mismatch)

		note := stet.Note{Who: "clerk", Why: "refunded"}
		if _, err := e.Operator().Resolve(t.Context(), c.ID(), stet.Resolution{Version: r.Version}, note); !errors.Is(err, stet.ErrContradicted) { // A04
			t.Errorf("freed against a late answer: %v", err)
		}
		h, err := e.Operator().Resolve(t.Context(), c.ID(), stet.Resolution{Version: r.Version, Override: true}, note)
		if h.Note == nil || !strings.Contains(h.Note.Evidence, "against a late answer with status 201") {
			t.Errorf("the history does not say what was overridden: %+v", h.Note)
		}
		if now, _ := s.read(c.ID()); err != nil || h.State != stet.Retryable || now.Response != nil {
			t.Errorf("freed, and what nobody adopted is still there: %+v, %v", now.Response, err)
		}
	})
}

func TestLateStatementsAreEvidence(t *testing.T) {
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		for key, state := range map[string]func(c *stet.Claim){
			"nothing happened": func(c *stet.Claim) { c.NotExecuted("declined") },
			"cannot tell":      func(c *stet.Claim) { c.Unknown("timeout") },
		} {
			c := must(t, e, request(key), stet.Execute).Claim
			after(stet.DefaultLease)
			_, _, _ = e.Operator().Sweep(t.Context(), "", 0)
			before, _ := s.read(c.ID())
			state(c)
			_ = c.Settle(t.Context(), stet.Outcome{})
			now, _ := s.read(c.ID())
			if told := now.Note != nil && strings.Contains(now.Note.Evidence, "nothing happened"); told != (key == "nothing happened") || now.State != stet.Unknown {
				t.Errorf("%s: %v, %+v", key, now.State, now.Note)
			}
			if key == "cannot tell" && now.Version != before.Version {
				t.Error("doubt is no evidence, and was written")
			}
		}
	})
}

// A run that has gone on without the late holder has nothing to hear from it.
func TestLateResultsDisturbNobody(t *testing.T) { // I3
	for name, goOn := range map[string]func(t *testing.T, e *stet.Engine, s *fakeStore, id stet.ID){
		"it is resolved": func(t *testing.T, e *stet.Engine, _ *fakeStore, id stet.ID) {
			_, _ = e.Operator().Resolve(t.Context(), id, stet.Resolution{Response: &stet.Response{Status: 201}}, stet.Note{Who: "w", Why: "y"})
		},
		"it runs again": func(t *testing.T, e *stet.Engine, _ *fakeStore, id stet.ID) {
			_, _ = e.Operator().Resolve(t.Context(), id, stet.Resolution{}, stet.Note{Who: "w", Why: "y"})
			must(t, e, request(string(id.Key)), stet.Execute)
		},
		"it is unknown after a later run": func(t *testing.T, e *stet.Engine, _ *fakeStore, id stet.ID) {
			_, _ = e.Operator().Resolve(t.Context(), id, stet.Resolution{}, stet.Note{Who: "w", Why: "y"})
			c := must(t, e, request(string(id.Key)), stet.Execute).Claim
			c.Unknown("timeout")
			_ = c.Settle(t.Context(), stet.Outcome{})
		},
		"it is gone": func(t *testing.T, e *stet.Engine, s *fakeStore, id stet.ID) {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.records, id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
				c := must(t, e, request("k"), stet.Execute).Claim
				after(stet.DefaultLease)
				_, _, _ = e.Operator().Sweep(t.Context(), "", 0)
				goOn(t, e, s, c.ID())
				before, was := s.read(c.ID())
				if err := c.Settle(t.Context(), result("late")); !errors.Is(err, stet.ErrFenced) {
					t.Error(err)
				}
				if now, is := s.read(c.ID()); now.Version != before.Version || is != was {
					t.Errorf("it was %v, and is %v", before.State, now.State)
				}
			})
		})
	}
}

// A key that was freed, and not used yet, is not free any more when its handler comes back with an
// answer.
func TestALateResultTakesAFreedKeyBack(t *testing.T) { // A04, I1
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		c := must(t, e, request("k"), stet.Execute).Claim
		after(stet.DefaultLease)
		_, _, _ = e.Operator().Sweep(t.Context(), "", 0)
		if _, err := e.Operator().Resolve(t.Context(), c.ID(), stet.Resolution{}, stet.Note{Who: "w", Why: "no trace of it"}); err != nil {
			t.Fatal(err)
		}
		if err := c.Settle(t.Context(), result("late")); !errors.Is(err, stet.ErrFenced) {
			t.Error(err)
		}
		r, _ := s.read(c.ID())
		if r.State != stet.Unknown || r.Cause != "contradicted" || string(r.Response.Body) != "late" || r.Attempt != 1 {
			t.Errorf("it is %v, %q, with %+v", r.State, r.Cause, r.Response)
		}
		must(t, e, request("k"), stet.Unresolved)
	})
}

// A store that was away for longer than the lease gets the result when it is back: as evidence,
// since by then the key was told to be unknown.
func TestResultAfterAnOutageIsEvidence(t *testing.T) { // SF-05, W5
	for name, c := range map[string]struct {
		outage time.Duration
		lapsed bool // a request or a loop has looked meanwhile
		told   bool
	}{
		"nobody came meanwhile":        {2 * stet.DefaultLease, false, true},
		"it was found lapsed":          {2 * stet.DefaultLease, true, true},
		"longer than answers are kept": {time.Hour, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
				claim := must(t, e, request("k"), stet.Execute).Claim
				s.mu.Lock()
				s.before = func(verb string, _ int) error { return map[string]error{"replace": errLost}[verb] }
				s.mu.Unlock()
				if err := claim.Settle(t.Context(), result("paid")); err == nil {
					t.Fatal("it was stored")
				}
				after(c.outage)
				s.mu.Lock()
				s.before = nil
				s.mu.Unlock()
				if c.lapsed {
					must(t, e, request("k"), stet.Unresolved)
				}
				if err := e.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
				r, _ := s.read(claim.ID())
				if told := r.Response != nil && string(r.Response.Body) == "paid" && r.Note != nil; told != c.told || told && r.State != stet.Unknown {
					t.Errorf("%v, %+v", r.State, r.Response)
				}
				must(t, e, request("k"), stet.Unresolved)
			})
		})
	}
}

// A process that ends does not wait for a store that is away, neither from before the end of the
// lease nor from after it.
func TestDrainDoesNotWaitForEvidence(t *testing.T) {
	for name, since := range map[string]time.Duration{"while the lease lasts": 0, "afterwards": 2 * stet.DefaultLease} {
		t.Run(name, func(t *testing.T) {
			shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
				claim := must(t, e, request("k"), stet.Execute).Claim
				s.mu.Lock()
				s.before = func(string, int) error { return errLost }
				s.mu.Unlock()
				_ = claim.Settle(t.Context(), result("paid"))
				after(since)
				began := time.Now()
				if err := e.Drain(t.Context()); err != nil || time.Since(began) > stet.DefaultLease+stet.DefaultStoreTimeout { // the last try takes its time
					t.Errorf("%v, after %s", err, time.Since(began))
				}
			})
		})
	}
}
