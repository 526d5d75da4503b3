package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// ward is an engine on a store with unknown records.
type ward struct {
	t *testing.T
	*stet.Engine
	told map[string]*atomic.Int64

	mu     sync.Mutex
	errors []error
}

func newWard(t *testing.T, unknown int) *ward {
	t.Helper()
	w := wardOn(t, memstore.New(memstore.Config{}))
	for i := range unknown {
		c := w.begin(i, stet.Execute)
		c.Unknown("timeout")
		if err := c.Settle(t.Context(), stet.Outcome{}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func wardOn(t *testing.T, store stet.Store) *ward {
	t.Helper()
	w := &ward{t: t, told: map[string]*atomic.Int64{"scheduled": {}, "resolved": {}, "failed": {}, "contradicted": {}}}
	var err error
	w.Engine, err = stet.New(store, stet.Config{Observe: func(e stet.Event) {
		switch e.Kind {
		case stet.Probed:
			w.told[e.Result].Add(1)
		case stet.ProbeFailed:
			w.mu.Lock()
			defer w.mu.Unlock()
			w.errors = append(w.errors, e.Err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func id(i int) stet.ID { return stet.ID{Scope: "s", Key: stet.Key(fmt.Sprint("k", i))} }

func (w *ward) begin(i int, want stet.Verdict) *stet.Claim {
	w.t.Helper()
	d, err := w.Begin(w.t.Context(), stet.Request{ID: id(i), Subject: stet.Subject{Body: []byte("1")}})
	if err != nil || d.Verdict != want {
		w.t.Fatalf("%v, %v; want %v", d.Verdict, err, want)
	}
	return d.Claim
}

// keep runs n reconcilers for a while.
func (w *ward) keep(n int, r Reconciler, d time.Duration) {
	ctx, cancel := context.WithTimeout(w.t.Context(), d)
	defer cancel()
	r.Engine = w.Engine
	for range n {
		go func() {
			if err := r.Run(ctx); err != nil {
				w.t.Error(err)
			}
		}()
	}
	<-ctx.Done()
	synctest.Wait()
}

func (w *ward) state(i int) stet.Record {
	w.t.Helper()
	r, err := w.Get(w.t.Context(), id(i))
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

var happened = Resolver(func(context.Context, stet.Head) (Finding, error) {
	return Finding{Effect: Happened, Response: &stet.Response{Status: 201, Body: []byte("ch_1")}, Evidence: "ch_1"}, nil
})

func TestTenReconcilersAskOnce(t *testing.T) { // I14, CR-06
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 30)
		var asked atomic.Int64
		w.keep(10, Reconciler{Resolver: Resolver(func(ctx context.Context, h stet.Head) (Finding, error) {
			asked.Add(1)
			return happened(ctx, h)
		})}, time.Minute)
		for i := range 30 {
			r := w.state(i)
			if r.State != stet.Completed || string(r.Response.Body) != "ch_1" || r.Note == nil || r.Note.Evidence != "ch_1" || r.Note.Who != "reconciler" {
				t.Errorf("%+v", r)
			}
			w.begin(i, stet.Replay)
		}
		if asked.Load() != 30 || w.told["scheduled"].Load() != 30 || w.told["resolved"].Load() != 30 || w.told["failed"].Load() != 0 {
			t.Errorf("asked %d times, told %v", asked.Load(), w.told)
		}
	})
}

func TestNoTraceIsNoProofBeforeItHasSettled(t *testing.T) { // I14, CR-07: the attempt may still be on its way
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 1)
		missing := Resolver(func(context.Context, stet.Head) (Finding, error) { return Finding{Effect: Missing}, nil })
		w.keep(1, Reconciler{Resolver: missing, Settle: 5 * time.Minute}, 4*time.Minute+50*time.Second)
		if r := w.state(0); r.State != stet.Unknown || r.Probes < 4 {
			t.Errorf("%v after %d probes", r.State, r.Probes)
		}
		w.keep(1, Reconciler{Resolver: missing, Settle: 5 * time.Minute}, 10*time.Minute)
		if c := w.begin(0, stet.Execute); c.Attempt() != 2 {
			t.Errorf("attempt %d", c.Attempt())
		}
	})
}

func TestNoTraceAfterALease(t *testing.T) { // what ended the attempt is the lease: it settles from there
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 0)
		w.begin(0, stet.Execute)
		<-time.After(time.Minute)
		if _, _, err := w.Operator().Sweep(t.Context(), "", 1); err != nil {
			t.Fatal(err)
		}
		missing := Resolver(func(context.Context, stet.Head) (Finding, error) { return Finding{Effect: Missing}, nil })
		w.keep(1, Reconciler{Resolver: missing, Settle: time.Minute}, 50*time.Second)
		w.begin(0, stet.Unresolved)
		w.keep(1, Reconciler{Resolver: missing, Settle: time.Minute}, 2*time.Minute)
		w.begin(0, stet.Execute)
	})
}

func TestVoidedNeedsNoSettling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 1)
		w.keep(1, Reconciler{Settle: stet.Never, Resolver: Resolver(func(context.Context, stet.Head) (Finding, error) {
			return Finding{Effect: Voided}, nil
		})}, time.Minute)
		w.begin(0, stet.Execute)
	})
}

func TestProbesUsedUpAreADeadLetter(t *testing.T) { // CR-08, I15
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 1)
		var asked atomic.Int64
		deaf := Resolver(func(ctx context.Context, _ stet.Head) (Finding, error) {
			asked.Add(1)
			<-ctx.Done() // the provider hangs: each probe has its own end
			return Finding{}, ctx.Err()
		})
		w.keep(3, Reconciler{Resolver: deaf, MaxProbes: 5}, 24*time.Hour)
		r := w.state(0)
		if !r.Escalated || r.State != stet.Unknown || asked.Load() != 5 || r.Note == nil || !strings.Contains(r.Note.Why, "5 probes") {
			t.Errorf("asked %d times; %+v", asked.Load(), r.Head)
		}
		if w.told["failed"].Load() != 1 || w.told["scheduled"].Load() != 5 {
			t.Errorf("told %d, %d", w.told["failed"].Load(), w.told["scheduled"].Load())
		}
		w.begin(0, stet.Unresolved)
	})
}

// With the last probe all is said: a dead letter does not wait for the probe that would have come
// after it.
func TestADeadLetterIsWrittenWithTheLastProbe(t *testing.T) { // A12
	for name, resolver := range map[string]Resolver{
		"nobody knows": func(context.Context, stet.Head) (Finding, error) { return Finding{}, nil },
		"an error":     func(context.Context, stet.Head) (Finding, error) { return Finding{}, errors.New("away") },
		"no trace yet": func(context.Context, stet.Head) (Finding, error) { return Finding{Effect: Missing}, nil },
		"a panic":      func(context.Context, stet.Head) (Finding, error) { panic("k0") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWard(t, 1)
				w.keep(3, Reconciler{Resolver: resolver, MaxProbes: 5, Every: time.Second, Settle: stet.Never}, LastProbe(5)+10*time.Second)
				r := w.state(0)
				if !r.Escalated || r.Probes != 5 || w.told["failed"].Load() != 1 || w.told["scheduled"].Load() != 5 {
					t.Errorf("told %d, %d; %+v", w.told["failed"].Load(), w.told["scheduled"].Load(), r.Head)
				}
			})
		})
	}
}

// A keeper that ends in its last probe, or right after it, leaves the record due: the next one
// gives it up, and asks no more.
func TestTheLastProbeIsInterrupted(t *testing.T) { // A12
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 1)
		asked, ctx := 0, t.Context()
		last, end := context.WithCancel(ctx)
		r := Reconciler{Engine: w.Engine, MaxProbes: 2, Every: time.Second, Resolver: Resolver(func(context.Context, stet.Head) (Finding, error) {
			if asked++; asked == 2 {
				end()
			}
			return Finding{}, nil
		})}
		if err := r.Run(last); err != nil {
			t.Fatal(err)
		}
		if h := w.state(0); h.Escalated || h.Probes != 2 || asked != 2 {
			t.Fatalf("asked %d times: %+v", asked, h.Head)
		}
		w.keep(1, r, longestPause)
		if h := w.state(0); !h.Escalated || asked != 2 || w.told["failed"].Load() != 1 {
			t.Errorf("asked %d times: %+v", asked, h.Head)
		}
	})
}

// A resolver that panics over one record is asked about the others, and its text, which may be a
// key, is not passed on.
func TestAPanicEndsOneProbe(t *testing.T) { // A13
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 20)
		w.keep(1, Reconciler{AtOnce: 1, Resolver: Resolver(func(ctx context.Context, h stet.Head) (Finding, error) {
			switch h.ID {
			case id(3):
				panic("k3")
			case id(4):
				var none []int
				_ = none[len(h.Key)]
			}
			return happened(ctx, h)
		})}, 30*time.Second)
		for i := range 20 {
			want := stet.Replay
			if i == 3 || i == 4 {
				want = stet.Unresolved
			}
			w.begin(i, want)
		}
		told := fmt.Sprint(w.errors)
		if len(w.errors) < 2 || strings.Contains(told, "k3") || !strings.Contains(told, "panicked with a string") || !strings.Contains(told, "index out of range") {
			t.Error(told)
		}
	})
}

func TestLastProbe(t *testing.T) {
	for probes, want := range []time.Duration{0, 0, 10 * time.Second, 30 * time.Second, 70 * time.Second} {
		if got := LastProbe(probes); got != want {
			t.Errorf("%d: %s", probes, got)
		}
	}
}

func TestFindingsThatSayNothing(t *testing.T) {
	for name, f := range map[string]Finding{"pending": {}, "happened, but how": {Effect: Happened}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWard(t, 1)
				w.keep(1, Reconciler{Resolver: Resolver(func(context.Context, stet.Head) (Finding, error) { return f, nil })}, time.Minute)
				w.begin(0, stet.Unresolved)
			})
		})
	}
}

func TestReconcilersNeedAnEngineAndAResolver(t *testing.T) {
	e := newWard(t, 0).Engine
	ended, end := context.WithCancel(t.Context())
	end() // one that is taken ends at once
	for _, c := range []struct {
		r    Reconciler
		want string
	}{
		{Reconciler{}, "needs an Engine and a Resolver"},
		{Reconciler{Engine: e}, "needs an Engine and a Resolver"},
		{Reconciler{Engine: e, Resolver: happened, MaxProbes: -1}, "Reconciler.MaxProbes is -1; it has to be from 1 "},
		{Reconciler{Engine: e, Resolver: happened, Settle: -time.Second}, "Settle is -1s"}, // A12
		{Reconciler{Engine: e, Resolver: happened, Settle: 45 * time.Minute}, "Settle is 45m0s, but the last of 8 probes comes 21m10s"},
		{Reconciler{Engine: e, Resolver: happened, Settle: 3 * time.Minute, MaxProbes: 5}, "the last of 5 probes comes 2m30s"},
	} {
		if err := c.r.Run(ended); err == nil || !strings.HasPrefix(err.Error(), "reconcile: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// A holder that came back too late has left its answer: it is what retries get once the effect was
// found, and speaks against a provider that has no trace of it.
func TestLateAnswers(t *testing.T) { // SF-05, I14
	for name, c := range map[string]struct {
		finding Finding
		want    stet.State
		body    string
	}{
		"found":                    {Finding{Effect: Happened, Evidence: "ch_1"}, stet.Completed, "late"},
		"found, and with answer":   {Finding{Effect: Happened, Response: &stet.Response{Status: 200, Body: []byte("probed")}}, stet.Completed, "late"}, // K02
		"found, but declined":      {Finding{Effect: Happened, Response: &stet.Response{Status: 402, Body: []byte("no")}}, stet.Unknown, "late"},
		"missing":                  {Finding{Effect: Missing}, stet.Unknown, "late"},
		"voided":                   {Finding{Effect: Voided}, stet.Unknown, "late"}, // A04: one rule for all evidence
		"nobody knows":             {Finding{}, stet.Unknown, "late"},
		"something else was found": {Finding{Effect: GoesOn}, stet.Unknown, "late"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWard(t, 0)
				claim := w.begin(0, stet.Execute)
				time.Sleep(time.Minute)
				if n, _, err := w.Operator().Sweep(t.Context(), "", 0); n != 1 || err != nil {
					t.Fatal(n, err)
				}
				if err := claim.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 201, Body: []byte("late")}}); !errors.Is(err, stet.ErrFenced) {
					t.Fatal(err)
				}
				resolver := Resolver(func(context.Context, stet.Head) (Finding, error) { return c.finding, nil })
				w.keep(1, Reconciler{Resolver: resolver, Settle: time.Minute}, time.Hour)
				r := w.state(0)
				if r.State != c.want || (r.Response == nil) != (c.body == "") || r.Response != nil && string(r.Response.Body) != c.body {
					t.Errorf("%s, %+v", r.State, r.Response)
				}
			})
		})
	}
}

// Without an answer, that it happened is not enough: there is nothing to tell retries.
func TestFoundWithoutAnAnswerStaysUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 1)
		w.keep(1, Reconciler{Resolver: Resolver(func(context.Context, stet.Head) (Finding, error) { return Finding{Effect: Happened}, nil })}, time.Minute)
		if r := w.state(0); r.State != stet.Unknown {
			t.Errorf("%s", r.State)
		}
	})
}

// Where bytes of an answer have left, nothing but its status may be given: a late one that is more
// than that must not keep the record unknown for ever.
func TestLateAnswerOfWhatWasPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, 0)
		claim := w.begin(0, stet.Execute)
		if err := claim.Publish(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n, _, err := w.Operator().Sweep(t.Context(), "", 0); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		late := stet.Outcome{Response: stet.Response{Status: 201, Header: []stet.Field{{Name: "Etag", Value: "x"}}}, Kept: stet.KeptHeader}
		if err := claim.Settle(t.Context(), late); !errors.Is(err, stet.ErrFenced) {
			t.Fatal(err)
		}
		resolver := Resolver(func(context.Context, stet.Head) (Finding, error) { return Finding{Effect: Happened}, nil })
		w.keep(1, Reconciler{Resolver: resolver}, time.Hour)
		if r := w.state(0); r.State != stet.Completed || r.Status != 201 || r.Kept != stet.KeptStatus {
			t.Errorf("%s, status %d, kept %d", r.State, r.Status, r.Kept)
		}
	})
}
