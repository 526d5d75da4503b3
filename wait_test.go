package stet_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
)

// waiting is a fakeStore with a Waiter that answers as told.
type waiting struct {
	*fakeStore
	answer func(ctx context.Context) error
}

func (w waiting) Wait(ctx context.Context, _ stet.ID, _ stet.Version) error { return w.answer(ctx) }

func TestAwaitOnAStoreThatCannotWait(t *testing.T) { // W22, CC-03
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		elsewhere, err := stet.New(s, stet.Config{}) // another process wakes no waiter here
		if err != nil {
			t.Fatal(err)
		}
		c := must(t, elsewhere, request("k"), stet.Execute).Claim
		began := time.Now()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				d, err := e.Await(t.Context(), must(t, e, request("k"), stet.InProgress), time.Minute)
				if err != nil || d.Verdict != stet.Replay || string(d.Record.Response.Body) != "ok" {
					t.Errorf("%v, %v", d.Verdict, err)
				}
			})
		}
		after(10 * time.Second)
		if err := c.Settle(t.Context(), result("ok")); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if took := time.Since(began) - 10*time.Second; took > 500*time.Millisecond {
			t.Errorf("they learned it after %v", took)
		}
		if n := s.count("get"); n > 40 {
			t.Errorf("the store was asked %d times", n)
		}
	})
}

func TestWaitersWhoseTimeEndsOneByOneDoNotAskForAll(t *testing.T) { // W22: linear, not each for each
	shelved(t, stet.Config{Policy: stet.Policy{Lease: time.Hour, Execution: stet.Never}}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		must(t, e, request("k"), stet.Execute)
		const waiters = 200
		began := time.Now()
		var wg sync.WaitGroup
		for i := range waiters {
			wg.Go(func() {
				upTo := time.Second + time.Duration(i)*10*time.Millisecond
				d, err := e.Await(t.Context(), must(t, e, request("k"), stet.InProgress), upTo)
				if err != nil || d.Verdict != stet.InProgress || time.Since(began) != upTo {
					t.Errorf("%v, %v after %v; want %v", d.Verdict, err, time.Since(began), upTo)
				}
			})
		}
		wg.Wait()
		if n := s.count("get"); n > 4*waiters {
			t.Errorf("%d waiters asked %d times", waiters, n)
		}
	})
}

func TestAWaiterThatWakesForNothingOrFails(t *testing.T) { // no store is asked in a tight loop
	for name, answer := range map[string]func(context.Context) error{
		"wakes for nothing": func(context.Context) error { return nil },
		"fails":             func(context.Context) error { return errLost },
		"wakes in between": func(ctx context.Context) error {
			select {
			case <-time.After(time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := waiting{&fakeStore{}, answer}
				e, err := stet.New(s, stet.Config{})
				if err != nil {
					t.Fatal(err)
				}
				must(t, e, request("k"), stet.Execute)
				d, err := e.Await(t.Context(), must(t, e, request("k"), stet.InProgress), 20*time.Second)
				if err != nil || d.Verdict != stet.InProgress {
					t.Errorf("%v, %v", d.Verdict, err)
				}
				if n := s.count("get"); n > 20*100 {
					t.Errorf("asked %d times in 20 s", n)
				}
			})
		})
	}
}

func TestAwaitAtTheEndOfTheLease(t *testing.T) { // CC-05, CC-12: at the instant, written once, and none executes
	const lease = 8 * time.Second
	for _, lapse := range []stet.LapseRule{stet.LapseUnknown, stet.LapseReexecute} {
		shelved(t, stet.Config{Policy: stet.Policy{Lease: lease, Rules: stet.Rules{OnLapse: lapse}}}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
			must(t, e, request("k"), stet.Execute)
			began := time.Now()
			want := map[stet.LapseRule]stet.Verdict{stet.LapseUnknown: stet.Unresolved, stet.LapseReexecute: stet.InProgress}[lapse]
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() {
					d, err := e.Await(t.Context(), must(t, e, request("k"), stet.InProgress), time.Hour)
					if err != nil || d.Verdict != want || d.Claim != nil || time.Since(began) != lease {
						t.Errorf("%v, %v after %v", d.Verdict, err, time.Since(began))
					}
					if want == stet.Unresolved && d.Record.State != stet.Unknown {
						t.Errorf("the verdict rests on a record that is %v", d.Record.State)
					}
				})
			}
			wg.Wait()
			if n := s.count("replace"); n > 1 {
				t.Errorf("%d writes", n)
			}
		})
	}
}

func TestAwaitMeetsAHolderWhoIsFaster(t *testing.T) { // W16: the lease is over, and the holder settles before the waiter writes
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		c := must(t, e, request("k"), stet.Execute).Claim
		waiter := must(t, e, request("k"), stet.InProgress)
		late := true
		s.after = func(verb string, _ int) error {
			if verb == "get" && late {
				late = false
				return c.Settle(t.Context(), result("ok"))
			}
			return nil
		}
		if d, err := e.Await(t.Context(), waiter, time.Hour); err != nil || d.Verdict != stet.Replay {
			t.Errorf("%v, %v", d.Verdict, err)
		}
	})
}

func TestAwaitAndAnotherLife(t *testing.T) { // I9: no request gets the answer to another request
	for _, recipe := range []bool{false, true} {
		shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
			must(t, e, request("k"), stet.Execute)
			waiter := must(t, e, request("k"), stet.InProgress)
			s.change(request("k").ID, func(r *stet.Record) { // gone, and made anew by another request elsewhere
				r.Version, r.Fingerprint.Sum[0] = r.Version+1, r.Fingerprint.Sum[0]+1
				if recipe {
					r.Fingerprint.Recipe = "1 raw"
				}
			})
			want := map[bool]stet.Verdict{false: stet.Mismatch, true: stet.InProgress}[recipe]
			if d, err := e.Await(t.Context(), waiter, 30*time.Second); err != nil || d.Verdict != want || d.Claim != nil {
				t.Errorf("%v, %v", d.Verdict, err)
			}
		})
	}
}

func TestAwaitOutlivesAHiccup(t *testing.T) {
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		c := must(t, e, request("k"), stet.Execute).Claim
		waiter := must(t, e, request("k"), stet.InProgress)
		s.before = func(verb string, n int) error {
			if verb == "get" && n%3 > 0 {
				return errLost
			}
			return nil
		}
		go func() {
			after(10 * time.Second)
			if err := c.Settle(t.Context(), result("ok")); err != nil {
				t.Error(err)
			}
		}()
		if d, err := e.Await(t.Context(), waiter, time.Minute); err != nil || d.Verdict != stet.Replay {
			t.Errorf("%v, %v", d.Verdict, err)
		}
		s.before = nil
		must(t, e, request("gone"), stet.Execute)
		waiter = must(t, e, request("gone"), stet.InProgress)
		s.before = func(string, int) error { return errLost }
		if d, err := e.Await(t.Context(), waiter, time.Minute); !errors.Is(err, stet.ErrUnsettled) {
			t.Errorf("without a store: %v, %v", d.Verdict, err)
		}
	})
}

func TestAClientThatLeavesWaitsForNothing(t *testing.T) { // CC-06: also when the store hangs
	shelved(t, stet.Config{StoreTimeout: time.Hour}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		must(t, e, request("k"), stet.Execute)
		before, _ := s.read(request("k").ID)
		waiter := must(t, e, request("k"), stet.InProgress)
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		time.AfterFunc(time.Second, cancel)
		_, err := e.Await(ctx, waiter, time.Minute)
		if !errors.Is(err, context.Canceled) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if now, _ := s.read(before.ID); now.Version != before.Version {
			t.Error("a waiter that left changed the record")
		}
	})
}

func TestAwaitReturnsOtherVerdictsAsTheyAre(t *testing.T) {
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		d := must(t, e, request("k"), stet.Execute)
		if got, err := e.Await(t.Context(), d, time.Hour); err != nil || got.Claim != d.Claim {
			t.Errorf("%v, %v", got.Verdict, err)
		}
		if got, err := e.Await(t.Context(), must(t, e, request("k"), stet.InProgress), 0); err != nil || got.Verdict != stet.InProgress || s.count("get") != 0 {
			t.Errorf("%v, %v", got.Verdict, err)
		}
	})
}
