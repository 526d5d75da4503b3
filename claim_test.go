package stet_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
)

func TestHeartbeatKeepsALongRunAlone(t *testing.T) { // T4, CR-03, W9
	bubble(t, stet.Config{Policy: stet.Policy{Lease: time.Second, Execution: stet.Never}}, func(h *house) {
		d := h.begin(request("k"), stet.Execute)
		held := d.Claim.Hold(h.t.Context(), lostFunc(func(err error) { h.t.Errorf("lost: %v", err) }))
		for range 30 {
			after(100 * time.Millisecond)
			h.begin(request("k"), stet.InProgress)
		}
		if held.Err() != nil {
			h.t.Error(held.Err())
		}
		h.settle(d.Claim)
		if !errors.Is(context.Cause(held), context.Canceled) {
			h.t.Errorf("after Settle the context says %v", context.Cause(held))
		}
		h.begin(request("k"), stet.Replay)
	})
}

func TestLostLeaseEndsTheContextInTime(t *testing.T) { // W8, W9, I13
	bubble(t, stet.Config{Policy: stet.Policy{Lease: 10 * time.Second}, StoreTimeout: 100 * time.Millisecond}, func(h *house) {
		d := h.begin(request("k"), stet.Execute)
		began := time.Now()
		var told error
		held := d.Claim.Hold(h.t.Context(), lostFunc(func(err error) { told = err }))
		h.store.Down()
		<-held.Done()
		if took := time.Since(began); took > 10*time.Second || took < 9*time.Second {
			h.t.Errorf("the context ended after %v of a 10 s lease", took)
		}
		synctest.Wait()
		if context.Cause(held) != stet.ErrLeaseLost || told != stet.ErrLeaseLost {
			h.t.Errorf("cause %v, told %v", context.Cause(held), told)
		}
		h.store.Up()
		h.begin(request("k"), stet.InProgress) // not over by the store's clock
		h.settle(d.Claim)                      // ... and no other writer has touched it
	})
}

func TestLeaseTakenAwayEndsTheContext(t *testing.T) { // I3, CR-02
	bubble(t, stet.Config{Policy: stet.Policy{Lease: 9 * time.Second, Execution: stet.Never}}, func(h *house) {
		d := h.begin(request("k"), stet.Execute)
		held := d.Claim.Hold(h.t.Context(), nil)
		r := h.record("k")
		if err := h.store.Delete(h.t.Context(), r.ID, r.Version); err != nil {
			h.t.Fatal(err)
		}
		after(3*time.Second + time.Millisecond)
		if context.Cause(held) != stet.ErrLeaseLost {
			h.t.Errorf("cause %v", context.Cause(held))
		}
		if err := d.Claim.Settle(h.t.Context(), result("late")); !errors.Is(err, stet.ErrFenced) {
			h.t.Errorf("Settle: %v", err)
		}
	})
}

func TestExecutionTimeout(t *testing.T) { // S0-41, FX-10
	bubble(t, stet.Config{Policy: stet.Policy{Execution: 3 * time.Second}}, func(h *house) {
		d := h.begin(request("k"), stet.Execute)
		began := time.Now()
		held := d.Claim.Hold(h.t.Context(), nil)
		<-held.Done()
		if time.Since(began) != 3*time.Second || context.Cause(held) != stet.ErrExecutionTimeout {
			h.t.Errorf("after %v: %v", time.Since(began), context.Cause(held))
		}
		d.Claim.Unknown("timeout")
		h.settle(d.Claim)
		h.begin(request("k"), stet.Unresolved)
		d.Claim.Completed() // FX-11: the holder learned the outcome after all
		h.settle(d.Claim)
		h.begin(request("k"), stet.Replay)
		if err := d.Claim.Settle(h.t.Context(), result("twice")); !errors.Is(err, stet.ErrFenced) {
			h.t.Errorf("a settled claim was settled again: %v", err)
		}
	})
}

func TestHeldContext(t *testing.T) { // W12
	bubble(t, stet.Config{}, func(h *house) {
		type key struct{}
		parent, cancel := context.WithCancel(context.WithValue(h.t.Context(), key{}, "value"))
		d := h.begin(request("k"), stet.Execute)
		held := d.Claim.Hold(parent, nil)
		cancel()
		if held.Err() != nil || held.Value(key{}) != "value" {
			h.t.Errorf("after the client left: %v, value %v", held.Err(), held.Value(key{}))
		}
		child, stop := context.WithCancel(held)
		defer stop()
		if stet.ClaimFrom(child) != d.Claim || stet.ClaimFrom(parent) != nil {
			h.t.Error("ClaimFrom")
		}
		if d.Claim.Hold(parent, nil) != held {
			h.t.Error("a claim is held once")
		}
		h.settle(d.Claim)
		if child.Err() == nil {
			h.t.Error("a derived context outlives the claim")
		}
	})
}

func TestPublishedAnswersAreNeverReplaced(t *testing.T) { // I2
	for _, lapse := range []stet.LapseRule{stet.LapseResume, stet.LapseReexecute} {
		bubble(t, stet.Config{Policy: stet.Policy{Rules: stet.Rules{OnLapse: lapse}}}, func(h *house) {
			d := h.begin(request("k"), stet.Execute)
			if err := d.Claim.Step(h.t.Context(), stet.Step{Point: "p"}); err != nil {
				h.t.Fatal(err)
			}
			if err := d.Claim.Publish(h.t.Context()); err != nil {
				h.t.Fatal(err)
			}
			after(stet.DefaultLease)
			h.begin(request("k"), stet.Unresolved)
		})
	}
	bubble(t, stet.Config{}, func(h *house) {
		d := h.begin(request("k"), stet.Execute)
		if err := d.Claim.Publish(h.t.Context()); err != nil {
			h.t.Fatal(err)
		}
		d.Claim.NotExecuted("but an answer has left")
		h.settle(d.Claim)
		h.begin(request("k"), stet.Unresolved)
	})
}

func TestSettleGoesOnTrying(t *testing.T) { // W5, SF-05, R08
	for _, c := range []struct {
		back time.Duration // when the store is back
		want stet.Verdict
	}{{30 * time.Second, stet.Replay}, {70 * time.Second, stet.Replay}, {time.Hour, stet.Replay}} {
		bubble(t, stet.Config{}, func(h *house) {
			d := h.begin(request("k"), stet.Execute)
			h.store.FailComplete(true)
			if err := d.Claim.Settle(h.t.Context(), result("ok")); err == nil || errors.Is(err, stet.ErrFenced) {
				h.t.Fatalf("Settle: %v", err)
			}
			after(c.back)
			h.store.Up()
			if err := h.Drain(h.t.Context()); err != nil {
				h.t.Fatal(err)
			}
			h.begin(request("k"), c.want)
			persisted := h.saw(func(e stet.Event) bool { return e.Kind == stet.Persisted })
			if (persisted == 1) != (c.want == stet.Replay) {
				h.t.Errorf("%d results were stored late", persisted)
			}
		})
	}
}

func TestBeginThatGivesUpLeavesNothing(t *testing.T) { // W2
	bubble(t, stet.Config{}, func(h *house) {
		h.store.LoseReplies(1)
		if _, err := h.Begin(h.t.Context(), request("k")); err == nil {
			h.t.Fatal("decided without an answer")
		}
		h.store.Up()
		if err := h.Drain(h.t.Context()); err != nil {
			h.t.Fatal(err)
		}
		h.begin(other("k"), stet.Execute) // not even a mismatch
	})
}

func TestDrainHasAnEnd(t *testing.T) {
	bubble(t, stet.Config{}, func(h *house) {
		d := h.begin(request("k"), stet.Execute)
		h.store.Down()
		_ = d.Claim.Settle(h.t.Context(), result("ok"))
		ctx, cancel := context.WithTimeout(h.t.Context(), time.Second)
		defer cancel()
		if err := h.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			h.t.Errorf("Drain: %v", err)
		}
		_ = h.Drain(h.t.Context())
	})
}

func TestWaitersShareOneLookAndAreWokenAtOnce(t *testing.T) { // W22, CC-03
	bubble(t, stet.Config{}, func(h *house) {
		d := h.begin(request("k"), stet.Execute)
		var wg sync.WaitGroup
		began := time.Now()
		for range 100 {
			wg.Go(func() {
				got, err := h.Await(h.t.Context(), h.begin(request("k"), stet.InProgress), time.Minute)
				if err != nil || got.Verdict != stet.Replay || time.Since(began) != 10*time.Second {
					h.t.Errorf("%v, %v after %v", got.Verdict, err, time.Since(began))
				}
			})
		}
		after(10 * time.Second)
		h.settle(d.Claim)
		wg.Wait()
	})
}

func TestAwaitEnds(t *testing.T) { // CC-04, CC-05, CC-06, CC-12, T14
	type outcome struct {
		verdict stet.Verdict
		after   time.Duration
	}
	for _, c := range []struct {
		name string
		do   func(h *house, c *stet.Claim, cancel func())
		want outcome
	}{
		{"time is up", func(*house, *stet.Claim, func()) {}, outcome{stet.InProgress, 20 * time.Second}},
		{"the run proved that nothing happened", func(h *house, c *stet.Claim, _ func()) {
			after(time.Second)
			c.NotExecuted("x")
			h.settle(c)
		}, outcome{stet.InProgress, time.Second}},
		{"the outcome is unknown", func(h *house, c *stet.Claim, _ func()) {
			after(time.Second)
			c.Unknown("x")
			h.settle(c)
		}, outcome{stet.Unresolved, time.Second}},
		{"the client left", func(_ *house, _ *stet.Claim, cancel func()) { after(time.Second); cancel() }, outcome{0, time.Second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, stet.Config{}, func(h *house) {
				d := h.begin(request("k"), stet.Execute)
				waiting := h.begin(request("k"), stet.InProgress)
				ctx, cancel := context.WithCancel(h.t.Context())
				defer cancel()
				began := time.Now()
				go c.do(h, d.Claim, cancel)
				got, err := h.Await(ctx, waiting, 20*time.Second)
				if got.Verdict != c.want.verdict || time.Since(began) != c.want.after || (err != nil) != (c.want.verdict == 0) || got.Claim != nil {
					h.t.Errorf("%v, %v after %v; want %v after %v", got.Verdict, err, time.Since(began), c.want.verdict, c.want.after)
				}
				if got.Verdict == stet.InProgress && h.record("k").State == stet.Retryable && got.RetryAfter(time.Minute) != time.Second {
					h.t.Errorf("come again after %v", got.RetryAfter(time.Minute))
				}
				synctest.Wait()
				if c.want.verdict == 0 || c.want.after == 20*time.Second {
					h.settle(d.Claim) // the owner is untouched
				}
			})
		})
	}
}

func TestAwaitSeesTheLeaseEnd(t *testing.T) { // CC-05
	bubble(t, stet.Config{Policy: stet.Policy{Lease: 8 * time.Second}}, func(h *house) {
		h.begin(request("k"), stet.Execute) // and its holder is gone
		got, err := h.Await(h.t.Context(), h.begin(request("k"), stet.InProgress), time.Hour)
		if err != nil || got.Verdict != stet.Unresolved {
			h.t.Errorf("%v, %v", got.Verdict, err)
		}
	})
}

func TestTooManyWaitersAreToldAtOnce(t *testing.T) { // W22
	bubble(t, stet.Config{MaxWaiters: 2}, func(h *house) {
		d := h.begin(request("k"), stet.Execute)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { _, _ = h.Await(h.t.Context(), h.begin(request("k"), stet.InProgress), time.Minute) })
		}
		synctest.Wait()
		began := time.Now()
		if got, err := h.Await(h.t.Context(), h.begin(request("k"), stet.InProgress), time.Minute); err != nil || got.Verdict != stet.InProgress || time.Since(began) != 0 {
			h.t.Errorf("%v, %v after %v", got.Verdict, err, time.Since(began))
		}
		h.settle(d.Claim)
		wg.Wait()
	})
}

func TestDo(t *testing.T) {
	bubble(t, stet.Config{}, func(h *house) {
		type receipt struct{ ID int }
		runs := 0
		charge := func(key string, err error) (receipt, error) {
			return stet.Do(h.t.Context(), h.Engine, request(key), func(ctx context.Context, c *stet.Claim) (receipt, error) {
				runs++
				if stet.ClaimFrom(ctx) != c {
					h.t.Error("the context does not know its claim")
				}
				if errors.Is(err, errDeclined) {
					c.NotExecuted("declined")
				}
				return receipt{runs}, err
			})
		}
		first, err := charge("k", nil)
		again, err2 := charge("k", nil)
		if err != nil || err2 != nil || first != again || runs != 1 {
			h.t.Errorf("%v %v, then %v %v; %d runs", first, err, again, err2, runs)
		}
		boom := errors.New("connection reset")
		if _, err := charge("unknown", boom); !errors.Is(err, boom) {
			h.t.Error(err)
		}
		refused := new(stet.Refused)
		if _, err := charge("unknown", nil); !errors.As(err, &refused) || refused.Verdict != stet.Unresolved {
			h.t.Errorf("after an error nobody can judge: %v", err)
		}
		if _, err := charge("free", errDeclined); !errors.Is(err, errDeclined) {
			h.t.Error(err)
		}
		if _, err := charge("free", nil); err != nil {
			h.t.Errorf("after proof that nothing happened: %v", err)
		}
		func() {
			defer func() {
				if recover() != "boom" {
					h.t.Error("the panic was swallowed")
				}
			}()
			_, _ = stet.Do(h.t.Context(), h.Engine, request("panic"), func(context.Context, *stet.Claim) (int, error) { panic("boom") })
		}()
		h.begin(request("panic"), stet.Unresolved)
	})
}

var errDeclined = errors.New("declined")

func ExampleDo() {
	engine, charge := exampleEngine(), func(amount int) string { return fmt.Sprint("charged ", amount) }
	for range 2 { // a queue delivers a message twice
		receipt, err := stet.Do(context.Background(), engine, stet.Request{
			ID:      stet.ID{Scope: "invoices", Key: "message-7"},
			Subject: stet.Subject{Body: []byte(`{"amount":10}`)},
		}, func(context.Context, *stet.Claim) (string, error) {
			fmt.Println("running")
			return charge(10), nil
		})
		fmt.Println(receipt, err)
	}
	// Output:
	// running
	// charged 10 <nil>
	// charged 10 <nil>
}

func TestAClaimKnowsItsUnansweredWrites(t *testing.T) { // I11, W2: a holder never fences itself
	bubble(t, stet.Config{}, func(h *house) {
		d := h.begin(request("k"), stet.Execute)
		h.store.LoseReplies(1)
		for range 3 { // each lands, and its answer is lost
			if err := d.Claim.Renew(h.t.Context()); err == nil || errors.Is(err, stet.ErrFenced) {
				h.t.Fatalf("Renew: %v", err)
			}
		}
		h.store.Up()
		h.settle(d.Claim)
	})
}

// What belongs elsewhere leaves the key to any request: to one with another payload, which is the
// first of another life, and to one that waits. After bytes of an answer have left it does not.
func TestNotHereFreesTheKeyForAnyRequest(t *testing.T) { // Q02
	for _, published := range []bool{false, true} {
		bubble(t, stet.Config{}, func(h *house) {
			d := h.begin(request("k"), stet.Execute)
			before := h.record("k").CreatedAt
			if published {
				if err := d.Claim.Publish(h.t.Context()); err != nil {
					h.t.Fatal(err)
				}
			}
			after(time.Second)
			d.Claim.NotHere("elsewhere")
			h.settle(d.Claim)
			if published {
				h.begin(request("k"), stet.Unresolved)
				return
			}
			next := h.begin(other("k"), stet.Execute)
			if got := h.record("k"); !got.CreatedAt.After(before) || got.Attempt != 1 {
				h.t.Errorf("it goes on as %+v", got)
			}
			h.settle(next.Claim)
			h.begin(other("k"), stet.Replay)
			h.begin(request("k"), stet.Mismatch)
		})
	}
}
