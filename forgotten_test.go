package stet_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// counted counts the events of a kind.
func counted(kind stet.EventKind) (func(stet.Event), *atomic.Int32) {
	var n atomic.Int32
	return func(ev stet.Event) {
		if ev.Kind == kind {
			n.Add(1)
		}
	}, &n
}

// After a double effect a record holds the answer of another execution. That it has the status and
// the size of a later one says nothing.
func TestTwoLateAnswersOfOneSize(t *testing.T) { // K03
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		first := must(t, e, request("k"), stet.Execute).Claim
		after(stet.DefaultLease)
		_, _, _ = e.Operator().Sweep(t.Context(), "", 0)
		free(t, e, first.ID())
		second := must(t, e, request("k"), stet.Execute).Claim
		second.Unknown("timeout")
		_ = second.Settle(t.Context(), stet.Outcome{})
		for _, c := range []*stet.Claim{first, second} {
			c.Completed()
			if err := c.Settle(t.Context(), result("charge "+string(rune('0'+c.Attempt())))); !errors.Is(err, stet.ErrFenced) {
				t.Error(err)
			}
			r, _ := s.read(c.ID())
			if r.State != stet.Unknown || r.Response == nil || string(r.Response.Body) != "charge "+string(rune('0'+c.Attempt())) {
				t.Errorf("attempt %d has answered, and the record is %v with %+v", c.Attempt(), r.State, r.Response)
			}
		}
	})
}

// Whether a second effect was to be expected is said by the rule of the execution that came too
// late, and by whether it was found not to have happened; a later request may bring another rule.
func TestWhichDoubleEffectsAreExpected(t *testing.T) { // K03c
	again := stet.Policy{Rules: stet.Rules{OnLapse: stet.LapseReexecute}}
	for name, c := range map[string]struct {
		first, second *stet.Policy
		freed         bool
		told          int32
	}{
		"it runs again by its rule":                    {&again, &again, false, 0},
		"its rule is to run again, and it was freed":   {&again, &again, true, 1},
		"it was freed, and the next one has that rule": {nil, &again, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				observe, told := counted(stet.DoubleEffect)
				e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{Observe: observe})
				if err != nil {
					t.Fatal(err)
				}
				q := request("k")
				q.Policy = c.first
				first := must(t, e, q, stet.Execute).Claim
				after(stet.DefaultLease)
				if c.freed {
					_, _, _ = e.Operator().Sweep(t.Context(), "", 0)
					free(t, e, first.ID())
				}
				q.Policy = c.second
				second := must(t, e, q, stet.Execute).Claim
				if err := first.Settle(t.Context(), result("first")); !errors.Is(err, stet.ErrFenced) {
					t.Error(err)
				}
				if err := second.Settle(t.Context(), result("second")); err != nil {
					t.Error(err)
				}
				after(10 * time.Second)
				if n := told.Load(); n != c.told {
					t.Errorf("told %d times, want %d", n, c.told)
				}
				if err := e.Drain(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A run that might run again by its rule, and did not, expires with its retention. What its handler
// answers then has no record, and is told.
func TestAnAnswerAfterItsKeyHasExpired(t *testing.T) { // K03
	observe, told := counted(stet.Unplaced)
	shelved(t, stet.Config{Observe: observe}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		q := request("k")
		q.Policy = &stet.Policy{Rules: stet.Rules{OnLapse: stet.LapseReexecute, KeepExpired: time.Hour}}
		c := must(t, e, q, stet.Execute).Claim
		after(stet.DefaultLease + stet.DefaultRetain)
		if _, _, err := e.Operator().Sweep(t.Context(), "", 0); err != nil {
			t.Fatal(err)
		}
		if r, _ := s.read(c.ID()); r.State != stet.Expired {
			t.Fatalf("it is %v", r.State)
		}
		if err := c.Settle(t.Context(), result("paid")); !errors.Is(err, stet.ErrFenced) {
			t.Error(err)
		}
		if told.Load() != 1 {
			t.Errorf("told %d times", told.Load())
		}
	})
}

// The store has not answered to the doubt of a run whose handler goes on. To say that it goes on
// neither makes a run of that doubt again, nor ends the lease of the run.
func TestAttendingAfterAnUnansweredDoubt(t *testing.T) { // K05, I13
	for name, away := range map[string]func(s *fakeStore){
		"it has landed": func(s *fakeStore) {
			s.after = func(verb string, _ int) error { return map[string]error{"replace": errLost}[verb] }
		},
		"it has not landed": func(s *fakeStore) { s.before = func(string, int) error { return errLost } },
	} {
		t.Run(name, func(t *testing.T) {
			shelved(t, stet.Config{Policy: stet.Policy{Rules: stet.Rules{OnLapse: stet.LapseResume}}}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
				c := must(t, e, request("k"), stet.Execute).Claim
				if err := c.Step(t.Context(), stet.Step{Point: "charged"}); err != nil {
					t.Fatal(err)
				}
				s.mu.Lock()
				away(s)
				s.mu.Unlock()
				c.Overdue("execution-timeout")
				if err := c.Settle(t.Context(), stet.Outcome{}); err == nil {
					t.Fatal("it was answered")
				}
				s.mu.Lock() // the store takes what it is sent, and shows nothing
				s.after, s.before = nil, func(verb string, _ int) error { return map[string]error{"get": errLost}[verb] }
				s.mu.Unlock()
				after(stet.DefaultLease/3 + time.Second)
				if r, _ := s.read(c.ID()); r.State == stet.Running && r.Over() {
					t.Errorf("its lease was ended while its handler works, %s before its time", stet.DefaultLease-r.AsOf.Sub(r.CreatedAt))
				}
				s.mend()
				after(10 * time.Second)
				if d := must(t, e, request("k"), stet.Unresolved); !d.Record.Attended() {
					t.Error("it is not attended")
				}
				c.Returned(t.Context())
			})
		})
	}
}

// A recovery point may be stored although its run was not answered. What is stored of the run later
// is about that point: it belongs to the progress that is there.
func TestARecoveryPointThatWasNotAnswered(t *testing.T) { // W2
	for name, end := range map[string]func(c *stet.Claim){
		"cannot tell":      func(c *stet.Claim) { c.Unknown("timeout") },
		"nothing happened": func(c *stet.Claim) { c.NotExecuted("declined") },
	} {
		t.Run(name, func(t *testing.T) {
			shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
				c := must(t, e, request("k"), stet.Execute).Claim
				s.mu.Lock()
				s.after = func(string, int) error { return errLost }
				s.mu.Unlock()
				if err := c.Step(t.Context(), stet.Step{Point: "charged", Progress: []byte("charged")}); err == nil {
					t.Fatal("it was answered")
				}
				s.mu.Lock()
				s.after, s.before = nil, func(string, int) error { return errLost }
				s.mu.Unlock()
				end(c)
				_ = c.Settle(context.WithoutCancel(t.Context()), stet.Outcome{})
				s.mend()
				after(10 * time.Second)
				r, _ := s.read(c.ID())
				if r.State == stet.Running || r.Point != "charged" || string(r.Progress) != "charged" {
					t.Errorf("it is %v, at %q with %q", r.State, r.Point, r.Progress)
				}
			})
		})
	}
}

// A handler that returns after its time was over, and says nothing else, has the answer. That the
// outcome was unknown until then was not its statement.
func TestAnAnswerAfterTheTimeWasOver(t *testing.T) { // K05
	shelved(t, stet.Config{Policy: stet.Policy{Execution: time.Second}}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		c := must(t, e, request("k"), stet.Execute).Claim
		<-c.Hold(t.Context(), nil).Done()
		after(time.Second)
		if r, _ := s.read(c.ID()); r.State != stet.Unknown || !r.Attended() {
			t.Fatalf("it is %v, attended %v", r.State, r.Attended())
		}
		if err := c.Settle(t.Context(), result("paid")); err != nil {
			t.Error(err)
		}
		must(t, e, request("k"), stet.Replay)
	})
}

// A process that ends while its store is away waits until no lease protects what it knows: the
// store may be back by then.
func TestAProcessThatEndsWaitsForItsLeases(t *testing.T) { // K03, W32
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		c := must(t, e, request("k"), stet.Execute).Claim
		s.mu.Lock()
		s.before = func(string, int) error { return errLost }
		s.mu.Unlock()
		if err := c.Settle(t.Context(), result("paid")); err == nil {
			t.Fatal("it was stored")
		}
		drained := make(chan error)
		go func() { drained <- e.Drain(t.Context()) }()
		after(stet.DefaultLease / 2)
		s.mend()
		if err := <-drained; err != nil {
			t.Error(err)
		}
		if r, _ := s.read(c.ID()); r.State != stet.Completed {
			t.Errorf("it is %v", r.State)
		}
	})
}

// What is learned later of an execution takes the place of what was learned before, also in the
// account of what is unstored.
func TestAnExecutionIsUnstoredOnce(t *testing.T) { // K03
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		c := must(t, e, request("k"), stet.Execute).Claim
		s.mu.Lock()
		s.before = func(string, int) error { return errLost }
		s.mu.Unlock()
		c.Unknown("timeout")
		_ = c.Settle(t.Context(), stet.Outcome{})
		_, before := e.Unstored()
		c.Completed()
		_ = c.Settle(t.Context(), result("paid"))
		if n, bytes := e.Unstored(); n != 1 || bytes != before+4 {
			t.Errorf("%d with %d bytes, want one with %d", n, bytes, before+4)
		}
		s.mend()
		after(10 * time.Second)
		if n, bytes := e.Unstored(); n != 0 || bytes != 0 {
			t.Errorf("%d with %d bytes are left", n, bytes)
		}
		must(t, e, request("k"), stet.Replay)
	})
}

// What a front end says of a run whose time is over is not the handler's statement, also where the
// store did not answer, or another was faster: the handler's answer still counts.
func TestADoubtThatWasNotStoredIsNoStatement(t *testing.T) { // K03a, N04
	for name, prepare := range map[string]func(s *fakeStore, e *stet.Engine){
		"the store is away": func(s *fakeStore, _ *stet.Engine) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.before = func(string, int) error { return errLost }
		},
		"its lapse was noticed": func(_ *fakeStore, e *stet.Engine) {
			after(stet.DefaultLease)
			_, _, _ = e.Operator().Sweep(context.Background(), "", 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
				c := must(t, e, request("k"), stet.Execute).Claim
				prepare(s, e)
				c.Overdue("execution-timeout")
				if err := c.Settle(t.Context(), stet.Outcome{}); err == nil {
					t.Fatal("it was stored")
				}
				if said := c.Stated(); said != 0 {
					t.Errorf("the handler is thought to have said that it is %v", said)
				}
				s.mend()
				c.Completed()
				_ = c.Settle(t.Context(), result("paid"))
				after(10 * time.Second)
				if r, _ := s.read(c.ID()); r.Response == nil || string(r.Response.Body) != "paid" {
					t.Errorf("it is %v with %+v", r.State, r.Response)
				}
			})
		})
	}
}

// The first connections after an outage are broken ones. A process that ends then tries again
// before it forgets what it knows.
func TestAProcessThatEndsAfterAnOutage(t *testing.T) { // K03, W32
	observe, told := counted(stet.Unplaced)
	shelved(t, stet.Config{Observe: observe}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		c := must(t, e, request("k"), stet.Execute).Claim
		s.mu.Lock()
		s.before = func(string, int) error { return errLost }
		s.mu.Unlock()
		_ = c.Settle(t.Context(), result("paid"))
		after(2 * stet.DefaultLease)
		gets := s.count("get")
		s.mu.Lock()
		s.before = func(verb string, n int) error {
			if verb == "get" && n <= gets+4 {
				return errLost
			}
			return nil
		}
		s.mu.Unlock()
		if err := e.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if r, _ := s.read(c.ID()); r.State != stet.Completed || told.Load() != 0 {
			t.Errorf("it is %v, and %d results were told to have no place", r.State, told.Load())
		}
	})
}
