package stet_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/execution"
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
		if _, err := e.Operator().Resolve(t.Context(), c.ID(), stet.Execution{Version: r.Version}, stet.Resolution{}, note); !errors.Is(err, stet.ErrContradicted) { // A04
			t.Errorf("freed against a late answer: %v", err)
		}
		h, err := e.Operator().Resolve(t.Context(), c.ID(), stet.Execution{Version: r.Version}, stet.Resolution{Override: true}, note)
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

// free states that nothing happened, as soon as a holder that lives would have said so.
func free(t *testing.T, e *stet.Engine, id stet.ID) {
	t.Helper()
	after(stet.HolderGrace)
	if _, err := e.Operator().Resolve(t.Context(), id, execution.Of(t.Context(), e, id), stet.Resolution{}, stet.Note{Who: "w", Why: "no trace of it"}); err != nil {
		t.Fatal(err)
	}
}

// A run that has gone on without the late holder has nothing to hear from it.
func TestLateResultsDisturbNobody(t *testing.T) { // I3
	for name, goOn := range map[string]func(t *testing.T, e *stet.Engine, s *fakeStore, id stet.ID){
		"it is resolved": func(t *testing.T, e *stet.Engine, _ *fakeStore, id stet.ID) {
			_, _ = e.Operator().Resolve(t.Context(), id, execution.Of(t.Context(), e, id), stet.Resolution{Response: &stet.Response{Status: 201}}, stet.Note{Who: "w", Why: "y"})
		},
		"it runs again": func(t *testing.T, e *stet.Engine, _ *fakeStore, id stet.ID) {
			free(t, e, id)
			must(t, e, request(string(id.Key)), stet.Execute)
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
		free(t, e, c.ID())
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

// A store that was away for longer than the lease gets the result when it is back. Its caller has
// it, so that it is the result as long as nothing else was executed. An answer that no caller was
// told is evidence where others were told that the outcome is unknown.
func TestResultAfterAnOutage(t *testing.T) { // R08, K02, W5
	for name, c := range map[string]struct {
		outage   time.Duration
		lapsed   bool // a request or a loop has looked meanwhile
		withheld bool
		want     stet.State
	}{
		"no request came meanwhile":             {2 * stet.DefaultLease, false, false, stet.Completed},
		"it was found lapsed":                   {2 * stet.DefaultLease, true, false, stet.Completed},
		"after an hour":                         {time.Hour, false, false, stet.Completed},
		"withheld, and no request came":         {2 * stet.DefaultLease, false, true, stet.Completed},
		"withheld, and it was found lapsed":     {2 * stet.DefaultLease, true, true, stet.Unknown},
		"withheld, and found lapsed in an hour": {time.Hour, true, true, stet.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
				claim := must(t, e, request("k"), stet.Execute).Claim
				s.mu.Lock()
				s.before = func(verb string, _ int) error { return map[string]error{"replace": errLost}[verb] }
				s.mu.Unlock()
				o := result("paid")
				o.Withheld = c.withheld
				if err := claim.Settle(t.Context(), o); err == nil {
					t.Fatal("it was stored")
				}
				after(c.outage)
				s.mend()
				if c.lapsed {
					must(t, e, request("k"), stet.Unresolved)
				}
				if err := e.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
				r, _ := s.read(claim.ID())
				if r.State != c.want || r.Response == nil || string(r.Response.Body) != "paid" || r.State == stet.Unknown && (r.Note == nil || r.Late().IsZero()) {
					t.Errorf("%v, %+v, %+v", r.State, r.Response, r.Note)
				}
				must(t, e, request("k"), map[stet.State]stet.Verdict{stet.Completed: stet.Replay, stet.Unknown: stet.Unresolved}[c.want])
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
				if err := e.Drain(t.Context()); err != nil || time.Since(began) > stet.DefaultLease+4*stet.DefaultStoreTimeout { // the last try takes its time, and comes up to three seconds late
					t.Errorf("%v, after %s", err, time.Since(began))
				}
			})
		})
	}
}

// What a holder learns while its store is away is stored as soon as the store is back, whatever it
// was: it may have learned that its time is over, and then the answer.
func TestWhatIsLearnedDuringAnOutage(t *testing.T) { // K03a
	for name, back := range map[string]bool{"the store is back before the answer": true, "the store is away all the time": false} {
		t.Run(name, func(t *testing.T) {
			shelved(t, stet.Config{Policy: stet.Policy{Execution: time.Second}}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
				c := must(t, e, request("k"), stet.Execute).Claim
				s.mu.Lock()
				s.before = func(string, int) error { return errLost }
				s.mu.Unlock()
				<-c.Hold(t.Context(), nil).Done()
				after(2 * stet.DefaultLease)
				if back {
					s.mend()
					after(time.Minute)
				}
				c.Completed()
				err := c.Settle(t.Context(), result("paid"))
				if back != (err == nil) {
					t.Errorf("Settle: %v", err)
				}
				s.mend()
				if err := e.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
				if d := must(t, e, request("k"), stet.Replay); string(d.Record.Response.Body) != "paid" {
					t.Errorf("%+v", d.Record.Response)
				}
			})
		})
	}
}

// After an outage, all hear at the same time that the lease of a run is over: its holder, which has
// to say that it still works, and a provider that knows that nothing has happened so far.
func TestAHolderHasTimeToSayThatItWorks(t *testing.T) { // K03d, I14
	for name, swept := range map[string]bool{"nobody has noticed the lapse": false, "the sweeper has": true} {
		t.Run(name, func(t *testing.T) {
			shelved(t, stet.Config{Policy: stet.Policy{Execution: time.Second}}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
				c := must(t, e, request("k"), stet.Execute).Claim
				s.mu.Lock()
				s.before = func(string, int) error { return errLost }
				s.mu.Unlock()
				<-c.Hold(t.Context(), nil).Done()
				after(2 * stet.DefaultLease)
				s.mend()
				other, err := stet.New(s, stet.Config{})
				if err != nil {
					t.Fatal(err)
				}
				if swept {
					_, _, _ = other.Operator().Sweep(t.Context(), "", 0)
				}
				statement := func() error {
					_, err := other.Operator().Resolve(t.Context(), c.ID(), stet.Execution{Fence: c.Fence()}, stet.Resolution{}, stet.Note{Who: "provider", Why: "it knows nothing of it"})
					return err
				}
				for range 20 {
					if err := statement(); !errors.Is(err, stet.ErrAttended) {
						t.Fatalf("freed while its handler works: %v", err)
					}
					after(time.Second)
				}
				c.Returned(t.Context()) // without an effect
				after(stet.HolderGrace + time.Second)
				if err := statement(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Whatever many runs have learned while the store was away is stored: nothing is dropped for being
// one too many.
func TestNothingIsForgotten(t *testing.T) { // K03b
	const many = 3000
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		var claims []*stet.Claim
		for i := range many {
			claims = append(claims, must(t, e, request(strconv.Itoa(i)), stet.Execute).Claim)
		}
		s.mu.Lock()
		s.before = func(string, int) error { return errLost }
		s.mu.Unlock()
		for _, c := range claims {
			_ = c.Settle(t.Context(), result("paid"))
		}
		if n, bytes := e.Unstored(); n != many || bytes < many*4 {
			t.Errorf("%d results of %d bytes are unstored", n, bytes)
		}
		after(10 * time.Minute)
		s.mend()
		after(time.Minute)
		for i := range many {
			must(t, e, request(strconv.Itoa(i)), stet.Replay)
		}
		if n, bytes := e.Unstored(); n != 0 || bytes != 0 {
			t.Errorf("%d results of %d bytes are unstored still", n, bytes)
		}
	})
}

// A process that has too much to remember executes nothing new, and forgets nothing.
func TestTooMuchUnstoredExecutesNothing(t *testing.T) { // K03b
	shelved(t, stet.Config{MaxUnstored: 10_000}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		must(t, e, request("before"), stet.Execute).Claim.Close()
		done := must(t, e, request("done"), stet.Execute).Claim
		if err := done.Settle(t.Context(), result("done")); err != nil {
			t.Fatal(err)
		}
		c := must(t, e, request("k"), stet.Execute).Claim
		s.mu.Lock()
		s.before = func(verb string, _ int) error { return map[string]error{"replace": errLost}[verb] }
		s.mu.Unlock()
		_ = c.Settle(t.Context(), result(strings.Repeat("x", 10_000)))
		if _, err := e.Begin(t.Context(), request("new")); !errors.Is(err, stet.ErrUnstored) || !errors.Is(err, stet.ErrUnsettled) {
			t.Errorf("Begin: %v", err)
		}
		if r, there := s.read(request("new").ID); there {
			t.Errorf("it was reserved: %v", r.State)
		}
		must(t, e, request("done"), stet.Replay)
		s.mend()
		after(10 * time.Second)
		must(t, e, request("new"), stet.Execute)
		must(t, e, request("k"), stet.Replay)
	})
}

// A result that the store can never take is not tried again: what it can take of it is stored.
func TestWhatTheStoreNeverTakes(t *testing.T) { // K08
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		c := must(t, e, request("k"), stet.Execute).Claim
		s.refuse = func(b *stet.Body) bool { return b != nil && b.Response != nil && len(b.Response.Body) > 100 }
		if err := c.Settle(t.Context(), result(strings.Repeat("x", 101))); err != nil {
			t.Fatal(err)
		}
		if n := s.count("replace"); n != 2 {
			t.Errorf("it was written %d times", n)
		}
		r, _ := s.read(c.ID())
		if r.State != stet.Completed || r.Kept != stet.KeptStatus || r.Status != 201 || r.Size != 101 || r.Response != nil {
			t.Errorf("%+v", r)
		}
		late := must(t, e, request("late"), stet.Execute).Claim
		s.mu.Lock()
		s.before = func(string, int) error { return errLost }
		s.mu.Unlock()
		_ = late.Settle(t.Context(), result(strings.Repeat("x", 101)))
		s.mend()
		after(10 * time.Second)
		if r, _ := s.read(late.ID()); r.State != stet.Completed || r.Kept != stet.KeptStatus || r.Size != 101 {
			t.Errorf("%+v", r)
		}
		if n, _ := e.Unstored(); n != 0 {
			t.Errorf("%d are unstored", n)
		}
	})
}

// An answer that comes after its key was freed and executed again is proof of two effects.
func TestProofOfTwoEffects(t *testing.T) { // K03c
	for name, c := range map[string]struct {
		second func(c *stet.Claim) // what becomes of the second execution
		want   stet.State
	}{
		"the second runs": {func(*stet.Claim) {}, stet.Running},
		"the second is done": {func(c *stet.Claim) {
			_ = c.Settle(context.Background(), result("second"))
		}, stet.Completed},
		"the second is unknown": {func(c *stet.Claim) {
			c.Unknown("timeout")
			_ = c.Settle(context.Background(), stet.Outcome{})
		}, stet.Unknown},
		"the second did nothing": {func(c *stet.Claim) {
			c.NotExecuted("declined")
			_ = c.Settle(context.Background(), stet.Outcome{})
		}, stet.Unknown},
	} {
		for how, tell := range map[string]func(t *testing.T, e *stet.Engine, first *stet.Claim){
			"its own answer": func(t *testing.T, e *stet.Engine, first *stet.Claim) {
				if err := first.Settle(t.Context(), result("first")); !errors.Is(err, stet.ErrFenced) {
					t.Error(err)
				}
			},
			"a notice": func(t *testing.T, e *stet.Engine, first *stet.Claim) {
				for range 2 { // a notice comes again
					_, err := e.Operator().Resolve(t.Context(), first.ID(), stet.Execution{Fence: first.Fence()}, stet.Resolution{Response: &stet.Response{Status: 201}}, stet.Note{Who: "provider", Why: "it was charged"})
					if !errors.Is(err, stet.ErrOtherRun) {
						t.Error(err)
					}
				}
			},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				var loud atomic.Int32
				observe := func(ev stet.Event) {
					if ev.Kind == stet.DoubleEffect {
						loud.Add(1)
					}
				}
				shelved(t, stet.Config{Observe: observe}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
					first := must(t, e, request("k"), stet.Execute).Claim
					after(stet.DefaultLease)
					_, _, _ = e.Operator().Sweep(t.Context(), "", 0)
					free(t, e, first.ID())
					second := must(t, e, request("k"), stet.Execute).Claim
					c.second(second)
					tell(t, e, first)
					after(10 * time.Second)
					if r, _ := s.read(first.ID()); r.State != c.want {
						t.Errorf("it is %v", r.State)
					}
					if c.want == stet.Running { // its holder is left alone, and told of when it has ended
						if err := second.Settle(t.Context(), result("second")); err != nil {
							t.Fatal(err)
						}
						after(2 * time.Minute) // no rest between two tries is longer
					}
					r, _ := s.read(first.ID())
					if loud.Load() != 1 || r.Cause != stet.CauseDoubleEffect || r.Note == nil || r.Note.Action != "double-effect" || !strings.Contains(r.Note.Evidence, "attempt 1 was answered 201") {
						t.Errorf("told %d times, %v, cause %q, %+v", loud.Load(), r.State, r.Cause, r.Note)
					}
					switch r.State {
					case stet.Completed:
						if d := must(t, e, request("k"), stet.Replay); string(d.Record.Response.Body) != "second" {
							t.Errorf("%s", d.Record.Response.Body)
						}
					default:
						must(t, e, request("k"), stet.Unresolved)
						_, err := e.Operator().Resolve(t.Context(), r.ID, r.Execution(), stet.Resolution{}, stet.Note{Who: "w", Why: "y"})
						if !errors.Is(err, stet.ErrContradicted) {
							t.Errorf("freed against the proof: %v", err)
						}
					}
				})
			})
		}
	}
}
