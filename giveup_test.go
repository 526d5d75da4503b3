package stet_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/execution"
)

// cut makes the next Replace happen, and loses its answer and all that come after it.
func (s *fakeStore) cut() {
	var cut atomic.Bool
	lost := func() error {
		if cut.Load() {
			return errLost
		}
		return nil
	}
	s.before = func(string, int) error { return lost() }
	s.after = func(verb string, _ int) error {
		if verb == "replace" {
			cut.Store(true)
		}
		return lost()
	}
}

// mend ends it, also while calls are made.
func (s *fakeStore) mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = nil, nil
}

func TestATakeThatGaveUpIsTakenBack(t *testing.T) { // W2: nothing ran, so the key must not turn unknown
	for _, c := range []struct {
		name  string
		rules stet.Rules
		leave func(t *testing.T, c *stet.Claim) // what the run before left
	}{
		{"of a retryable record", stet.Rules{}, func(t *testing.T, c *stet.Claim) {
			c.NotExecuted("declined")
			if err := c.Settle(t.Context(), stet.Outcome{}); err != nil {
				t.Fatal(err)
			}
		}},
		{"of a recovery point", stet.Rules{OnLapse: stet.LapseResume}, func(t *testing.T, c *stet.Claim) {
			if err := c.Step(t.Context(), stet.Step{Point: "charged", Progress: []byte("progress")}); err != nil {
				t.Fatal(err)
			}
			after(stet.DefaultLease)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			shelved(t, stet.Config{Policy: stet.Policy{Rules: c.rules}}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
				c.leave(t, must(t, e, request("k"), stet.Execute).Claim)
				left, _ := s.read(request("k").ID)
				s.cut()
				if _, err := e.Begin(t.Context(), request("k")); !errors.Is(err, stet.ErrUnsettled) {
					t.Fatalf("Begin without an answer: %v", err)
				}
				if r, _ := s.read(left.ID); r.State != stet.Running || r.Attempt != 2 {
					t.Fatalf("it was to happen without an answer: %v", r.State)
				}
				s.mend()
				if err := e.Drain(t.Context()); err != nil {
					t.Fatal(err)
				}
				r, _ := s.read(left.ID)
				if r.State != left.State || r.Attempt != 1 || r.Point != left.Point || string(r.Progress) != string(left.Progress) || r.DueAt.After(left.DueAt.Add(10*time.Second)) {
					t.Errorf("left is %v, attempt %d, point %q, due %v; before it was %v, due %v", r.State, r.Attempt, r.Point, r.DueAt, left.State, left.DueAt)
				}
				if d := must(t, e, request("k"), stet.Execute); d.Claim.Attempt() != 2 {
					t.Errorf("attempt %d", d.Claim.Attempt())
				}
			})
		})
	}
}

func TestATakeThatNeverHappenedTakesNothingBack(t *testing.T) { // I1, W2: the run that is there by then has another holder
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		c := must(t, e, request("k"), stet.Execute).Claim
		c.NotExecuted("declined")
		if err := c.Settle(t.Context(), stet.Outcome{}); err != nil {
			t.Fatal(err)
		}
		s.before = func(verb string, _ int) error { return map[string]error{"replace": errLost}[verb] }
		if _, err := e.Begin(t.Context(), request("k")); !errors.Is(err, stet.ErrUnsettled) {
			t.Fatalf("Begin without an answer: %v", err)
		}
		s.mend()
		other, err := stet.New(s, stet.Config{})
		if err != nil {
			t.Fatal(err)
		}
		theirs := must(t, other, request("k"), stet.Execute).Record
		if err := e.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r, _ := s.read(theirs.ID); r.Version != theirs.Version {
			t.Errorf("the other's run is %v, attempt %d", r.State, r.Attempt)
		}
	})
}

func TestATakeThatIsTakenBackRepeatsNoNote(t *testing.T) { // I16: a note belongs to one change
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		c := must(t, e, request("k"), stet.Execute).Claim
		c.Unknown("timeout")
		if err := c.Settle(t.Context(), stet.Outcome{}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Operator().Resolve(t.Context(), c.ID(), execution.Of(t.Context(), e, c.ID()), stet.Resolution{}, stet.Note{Who: "ann", Why: "it was voided"}); err != nil {
			t.Fatal(err)
		}
		s.cut()
		if _, err := e.Begin(t.Context(), request("k")); !errors.Is(err, stet.ErrUnsettled) {
			t.Fatalf("Begin without an answer: %v", err)
		}
		s.mend()
		if err := e.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r, _ := s.read(c.ID()); r.State != stet.Retryable || r.Note != nil {
			t.Errorf("left is %v, with the note %v", r.State, r.Note)
		}
	})
}

func TestATakeWithoutAnAnswerIsRecognised(t *testing.T) { // I11, W2: a request never meets itself, also as a retry
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		c := must(t, e, request("k"), stet.Execute).Claim
		c.NotExecuted("declined")
		if err := c.Settle(t.Context(), stet.Outcome{}); err != nil {
			t.Fatal(err)
		}
		sent := s.count("replace")
		s.after = func(verb string, n int) error { // it is the same write that has to be answered: see TestNothingIsGrantedByWhatIsNotConfirmed
			if verb == "replace" && n <= sent+3 {
				return errLost
			}
			return nil
		}
		d := must(t, e, request("k"), stet.Execute)
		s.mend()
		if err := d.Claim.Settle(t.Context(), result("ok")); err != nil || d.Claim.Attempt() != 2 {
			t.Errorf("attempt %d, %v", d.Claim.Attempt(), err)
		}
	})
}

func TestARestartThatGaveUpIsTakenBack(t *testing.T) { // W2
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		if err := must(t, e, request("k"), stet.Execute).Claim.Settle(t.Context(), result("ok")); err != nil {
			t.Fatal(err)
		}
		after(stet.DefaultRetain)
		s.cut()
		if _, err := e.Begin(t.Context(), request("k")); !errors.Is(err, stet.ErrUnsettled) {
			t.Fatalf("Begin without an answer: %v", err)
		}
		s.mend()
		_ = e.Drain(t.Context())
		if r, _ := s.read(request("k").ID); r.State != stet.Retryable || r.Cause != stet.CauseGivenUp || !r.Over() || r.Response != nil {
			t.Errorf("left is %v, %q, over %v", r.State, r.Cause, r.Over())
		}
	})
}

func TestARefusalOfTheStoreIsSaidAtOnce(t *testing.T) { // LM-08, SF-06, W24
	for _, c := range []struct {
		name  string
		fault func(s *fakeStore)
		want  error
	}{
		{"full", func(s *fakeStore) {
			s.before = func(verb string, _ int) error { return map[string]error{"create": stet.ErrFull}[verb] }
		}, stet.ErrFull},
		{"corrupt", func(s *fakeStore) {
			s.before = func(string, int) error { return fmt.Errorf("%w: torn", stet.ErrCorrupt) }
		}, stet.ErrCorrupt},
		{"a state of a later version", func(s *fakeStore) { s.change(request("k").ID, func(r *stet.Record) { r.State = 99 }) }, stet.ErrCorrupt},
		{"no state", func(s *fakeStore) { s.change(request("k").ID, func(r *stet.Record) { r.State = 0 }) }, stet.ErrCorrupt},
		{"another record", func(s *fakeStore) { s.change(request("k").ID, func(r *stet.Record) { r.Scope = "other" }) }, stet.ErrCorrupt},
		{"a recipe nobody knows", func(s *fakeStore) {
			s.change(request("k").ID, func(r *stet.Record) { r.Fingerprint.Recipe = "99 x" })
		}, stet.ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
				must(t, e, request("k"), stet.Execute)
				c.fault(s)
				asked, began := s.count("create"), time.Now()
				d, err := e.Begin(t.Context(), request("k"))
				if !errors.Is(err, c.want) || !errors.Is(err, stet.ErrUnsettled) || d.Claim != nil {
					t.Errorf("%v, %v", d.Verdict, err)
				}
				if n := s.count("create") - asked; n != 1 || time.Since(began) != 0 {
					t.Errorf("%d calls, %v", n, time.Since(began))
				}
				if s.count("replace") != 0 || s.count("delete") != 0 {
					t.Error("something was written")
				}
			})
		})
	}
}

func TestAPolicyThatCannotBeUsedDecidesNothing(t *testing.T) {
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		q := request("k")
		q.Policy = &stet.Policy{Lease: stet.Never}
		if _, err := e.Begin(t.Context(), q); err == nil || s.count("create") != 0 {
			t.Errorf("a lease without end: %v, after %d calls", err, s.count("create"))
		}
	})
}

func TestAStoreThatIsAwayDoesNotFillTheProcess(t *testing.T) { // bounded work
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		s.before = func(string, int) error { return errLost }
		var wg sync.WaitGroup
		for i := range 3000 {
			wg.Go(func() {
				if _, err := e.Begin(t.Context(), request(fmt.Sprint(i))); err == nil {
					t.Error("decided without a store")
				}
			})
		}
		wg.Wait()
		if n := runtime.NumGoroutine(); n > 1200 {
			t.Errorf("%d goroutines clean up", n)
		}
		deleted := s.count("delete")
		began := time.Now()
		if err := e.Drain(t.Context()); err != nil || time.Since(began) > 4*stet.DefaultStoreTimeout {
			t.Errorf("they ended after %v: %v", time.Since(began), err)
		}
		if per := (s.count("delete") - deleted) / 1024; per > 14 {
			t.Errorf("%d tries for each", per)
		}
	})
}

func TestDrainWhileMoreComes(t *testing.T) { // with -race
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		s.before = func(string, int) error { return errLost }
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() { _, _ = e.Begin(t.Context(), request(fmt.Sprint(i))) })
			wg.Go(func() {
				if err := e.Drain(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if err := e.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestThirtyPercentLostEachWay(t *testing.T) { // I1, I3, I11, W2, W34
	for _, loss := range []float64{0, 0.1, 0.3} {
		t.Run(fmt.Sprint(loss), func(t *testing.T) {
			bubble(t, stet.Config{Policy: stet.Policy{Lease: time.Hour}, StoreTimeout: time.Minute}, func(h *house) {
				h.store.Lose(loss, loss)
				const keys, racers = 300, 4
				var fenced, left atomic.Int64
				ran := make([]atomic.Int64, keys)
				var wg sync.WaitGroup
				for k := range keys {
					for range racers {
						wg.Go(func() { race(h, fmt.Sprint(k), &ran[k], &fenced) })
					}
				}
				wg.Wait()
				h.store.Up()
				if err := h.Drain(h.t.Context()); err != nil {
					h.t.Fatal(err)
				}
				for k := range keys {
					r, err := h.Get(h.t.Context(), request(fmt.Sprint(k)).ID)
					switch {
					case ran[k].Load() > 1:
						h.t.Errorf("key %d was executed %d times", k, ran[k].Load())
					case err == nil && r.State == stet.Running:
						left.Add(1)
					case ran[k].Load() == 1 && (err != nil || r.State != stet.Completed || string(r.Response.Body) != fmt.Sprint(k)):
						h.t.Errorf("key %d was executed, and is %v (%v)", k, r.State, err)
					}
				}
				if fenced.Load()+left.Load() > 0 {
					h.t.Errorf("%d writes fenced their own holder, %d keys were left running", fenced.Load(), left.Load())
				}
			})
		})
	}
}

// race is one of several who want the key, and use it as a handler would.
func race(h *house, key string, ran, fenced *atomic.Int64) {
	d, err := h.Begin(h.t.Context(), request(key))
	if err != nil || d.Verdict != stet.Execute {
		return
	}
	ran.Add(1)
	for i := range 3 {
		if err := d.Claim.Step(h.t.Context(), stet.Step{Point: fmt.Sprint(i), Progress: []byte("p")}); errors.Is(err, stet.ErrFenced) {
			fenced.Add(1)
		}
	}
	if err := d.Claim.Settle(h.t.Context(), result(key)); errors.Is(err, stet.ErrFenced) {
		fenced.Add(1)
	}
}

func TestAClientThatLeavesEndsTheTriesNotTheCall(t *testing.T) { // W12, I8
	shelved(t, stet.Config{}, func(t *testing.T, s *fakeStore, e *stet.Engine) {
		ctx, cancel := context.WithCancel(t.Context())
		s.before = func(verb string, n int) error {
			cancel()
			synctest.Wait()
			return nil
		}
		if d, err := e.Begin(ctx, request("k")); err != nil || d.Verdict != stet.Execute {
			t.Errorf("the call was interrupted: %v, %v", d.Verdict, err)
		}
		s.before = func(string, int) error { return errLost }
		asked := s.count("create")
		if _, err := e.Begin(ctx, request("k2")); err == nil || s.count("create")-asked != 1 {
			t.Errorf("%v, after %d tries", err, s.count("create")-asked)
		}
		_ = e.Drain(t.Context())
	})
}
