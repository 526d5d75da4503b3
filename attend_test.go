package stet_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/execution"
	"github.com/stet-dev/stet/reconcile"
)

var nothingHappened = stet.Note{Who: "w", Why: "no trace of it"}

// overrun begins a run whose handler does not return in time.
func overrun(t *testing.T, e *stet.Engine) *stet.Claim {
	t.Helper()
	c := must(t, e, request("k"), stet.Execute).Claim
	c.Overdue("execution-timeout")
	if err := c.Settle(t.Context(), stet.Outcome{}); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAHandlerThatHasNotReturnedIsNoProof(t *testing.T) { // A03, I14
	const settle = 600 * time.Millisecond // shorter than any lease
	for name, touch := range map[string]func(t *testing.T, e *stet.Engine, id stet.ID){
		"alone": func(*testing.T, *stet.Engine, stet.ID) {},
		"beside a reconciler": func(t *testing.T, e *stet.Engine, id stet.ID) {
			r, err := e.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if _, mine, err := e.Operator().Probing(t.Context(), &r.Head, time.Second, nil); err != nil || !mine {
				t.Fatal(mine, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
				c := overrun(t, e)
				touch(t, e, c.ID())
				for range 10 {
					after(stet.DefaultLease/2 + time.Second) // at no instant of a heartbeat
					if r, _ := s.read(c.ID()); !r.Attended() || r.Idle() != 0 || r.State != stet.Unknown {
						t.Fatalf("the record is %v, attended %v, idle %v", r.State, r.Attended(), r.Idle())
					}
					touch(t, e, c.ID())
					if _, err := e.Operator().Resolve(t.Context(), c.ID(), execution.Of(t.Context(), e, c.ID()), stet.Resolution{}, nothingHappened); !errors.Is(err, stet.ErrAttended) {
						t.Fatalf("freed while its handler runs: %v", err)
					}
				}
				before, _ := s.read(c.ID())
				returned := time.Now()
				c.Returned(t.Context())
				after(settle)
				r, _ := s.read(c.ID())
				if r.Attended() || r.Idle() != time.Since(returned) {
					t.Errorf("it returned %v ago, and is idle for %v, attended %v", time.Since(returned), r.Idle(), r.Attended())
				}
				if !r.DueAt.Equal(before.DueAt) && r.DueAt.After(returned) {
					t.Errorf("the next probe is at %v, and was at %v", r.DueAt, before.DueAt)
				}
				after(stet.DefaultLease)
				if now, _ := s.read(c.ID()); now.Version != r.Version {
					t.Error("it is still written to")
				}
				if _, err := e.Operator().Resolve(t.Context(), c.ID(), execution.Of(t.Context(), e, c.ID()), stet.Resolution{}, nothingHappened); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAProcessThatDiesAttendsForALease(t *testing.T) { // A03
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		c := overrun(t, e)
		s.mu.Lock()
		s.before = func(string, int) error { return errLost } // as good as dead
		s.mu.Unlock()
		after(stet.DefaultLease - time.Second)
		if r, _ := s.read(c.ID()); !r.Attended() {
			t.Error("it is not attended any more")
		}
		after(2 * time.Second)
		if r, _ := s.read(c.ID()); r.Attended() {
			t.Error("it is attended still")
		}
	})
}

func TestAnOverrunHandlerMaySettleAfterAll(t *testing.T) { // A03, FX-11
	for name, meddle := range map[string]func(e *stet.Engine, h *stet.Head){
		"nobody has touched it": nil,
		"a probe was made": func(e *stet.Engine, h *stet.Head) {
			_, _, _ = e.Operator().Probing(context.Background(), h, time.Hour, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
				c := overrun(t, e)
				after(stet.DefaultLease + time.Second) // not in the instant in which the handler's work is attested again
				if r, _ := s.read(c.ID()); meddle != nil {
					meddle(e, &r.Head)
				}
				c.Completed()
				err := c.Settle(t.Context(), result("late"))
				r, _ := s.read(c.ID())
				if err != nil || r.State != stet.Completed || r.Meta != nil || string(r.Response.Body) != "late" {
					t.Errorf("%v, %+v, %v", r.State, r.Response, err)
				}
			})
		})
	}
}

// The whole of A03 as it was found: a library's handler that ignores its context, and a reconciler
// that finds no trace.
func TestMissingIsNoProofWhileTheHandlerRuns(t *testing.T) { // A03, I1, I14, W21
	shelved(t, stet.Config{Policy: stet.Policy{Execution: 200 * time.Millisecond}}, func(t *testing.T, _ *fakeStore, e *stet.Engine) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		effects := 0
		resolver := reconcile.Resolver(func(context.Context, stet.Head) (reconcile.Finding, error) {
			return reconcile.Finding{Effect: reconcile.Missing, Evidence: "404"}, nil
		})
		done := make(chan error)
		go func() {
			done <- reconcile.Reconciler{Engine: e, Resolver: resolver, Every: 100 * time.Millisecond, MaxProbes: 100, Settle: 600 * time.Millisecond}.Run(ctx)
		}()
		c := must(t, e, request("k"), stet.Execute).Claim
		told := make(chan struct{})
		_ = c.Hold(t.Context(), lostFunc(func(error) {
			c.Overdue("execution-timeout")
			_ = c.Settle(t.Context(), stet.Outcome{})
			close(told)
		}))
		<-told
		for range 30 { // a client that asks again while the handler goes on for five minutes
			after(10 * time.Second)
			if d, err := e.Begin(t.Context(), request("k")); err != nil || d.Verdict != stet.Unresolved {
				t.Fatalf("%v, %v", d.Verdict, err)
			}
		}
		effects++
		c.Completed()
		_ = c.Settle(t.Context(), result("charged")) // it was probed meanwhile, which takes nothing from its answer
		after(time.Hour)
		if d, err := e.Begin(t.Context(), request("k")); err != nil || d.Verdict != stet.Replay || effects != 1 {
			t.Errorf("%v, %v, %d effects", d.Verdict, err, effects)
		}
		stop()
		<-done
	})
}

func TestLookingAtAClaimWaitsForNoStore(t *testing.T) { // A16
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		c := must(t, e, request("k"), stet.Execute).Claim
		lost := make(chan error, 1)
		held := c.Hold(t.Context(), lostFunc(func(cause error) { lost <- cause }))
		hanging, release := make(chan struct{}), make(chan struct{})
		s.mu.Lock()
		s.before = func(string, int) error { // it hangs, and heeds no deadline
			select {
			case hanging <- struct{}{}:
			case <-release:
			}
			<-release
			return errLost
		}
		s.mu.Unlock()
		<-hanging
		began := time.Now()
		if c.Attempt() != 1 || c.Head().State != stet.Running || c.Fence() == 0 || c.Stated() != 0 || c.Ended() != nil || time.Since(began) != 0 {
			t.Errorf("it took %v to say what the claim is", time.Since(began))
		}
		c.Unknown("x")
		<-held.Done() // I13: in time, whatever the store does
		if cause := <-lost; !errors.Is(cause, stet.ErrExecutionTimeout) || time.Since(began) > stet.DefaultExecution {
			t.Errorf("%v, after %v", cause, time.Since(began))
		}
		close(release)
	})
}

// A front end that only holds its claim, and whose handler ignores the end of its context: the
// record is unknown and attended as long as the handler works, and then has its answer.
func TestHoldAttends(t *testing.T) { // K05
	for name, end := range map[string]func(e *stet.Engine){
		"its time is over": func(*stet.Engine) { after(time.Minute) },
		"the process ends": func(e *stet.Engine) { e.Abandon(context.Background()) },
	} {
		for _, answers := range []bool{true, false} {
			shelved(t, stet.Config{Policy: stet.Policy{Execution: 40 * time.Second}}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
				c := must(t, e, request("k"), stet.Execute).Claim
				held := c.Hold(t.Context(), nil)
				end(e)
				if held.Err() == nil {
					t.Fatalf("%s: the context goes on", name)
				}
				for range 10 {
					after(stet.DefaultLease/2 + time.Second) // at no instant of a heartbeat
					if r, _ := s.read(c.ID()); r.State != stet.Unknown || !r.Attended() || r.Idle() != 0 {
						t.Fatalf("%s: the record is %v, attended %v, idle %v", name, r.State, r.Attended(), r.Idle())
					}
					_, err := e.Operator().Resolve(t.Context(), c.ID(), execution.Of(t.Context(), e, c.ID()), stet.Resolution{}, nothingHappened)
					if !errors.Is(err, stet.ErrAttended) {
						t.Fatalf("%s: freed while its handler works: %v", name, err)
					}
				}
				if !answers {
					c.Returned(t.Context())
					after(time.Second)
					if r, _ := s.read(c.ID()); r.State != stet.Unknown || r.Attended() || r.Idle() != time.Second {
						t.Errorf("%s: it has returned, and the record is %v, attended %v, idle %v", name, r.State, r.Attended(), r.Idle())
					}
					return
				}
				if err := c.Settle(t.Context(), result("paid")); err != nil {
					t.Fatal(err)
				}
				if d := must(t, e, request("k"), stet.Replay); string(d.Record.Response.Body) != "paid" {
					t.Errorf("%s: %+v", name, d.Record.Response)
				}
			})
		}
	}
}
