package stet_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/storetest/faulty"
)

// house is an engine on a store that fails as told, in virtual time where the test runs in a
// bubble.
type house struct {
	t     *testing.T
	store *faulty.Store
	*stet.Engine

	mu     sync.Mutex
	events []stet.Event
}

func newHouse(t *testing.T, c stet.Config) *house {
	t.Helper()
	h := &house{t: t, store: faulty.New(memstore.New(memstore.Config{}), 7)}
	c.Observe = func(e stet.Event) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.events = append(h.events, e)
	}
	var err error
	if h.Engine, err = stet.New(h.store, c); err != nil {
		t.Fatal(err)
	}
	return h
}

func request(key string) stet.Request {
	return stet.Request{ID: stet.ID{Scope: "s", Key: stet.Key(key)}, Subject: stet.Subject{Method: "POST", Path: "/", Body: []byte("1")}}
}

func other(key string) stet.Request {
	q := request(key)
	q.Subject.Body = []byte("2")
	return q
}

func (h *house) begin(q stet.Request, want stet.Verdict) stet.Decision {
	h.t.Helper()
	d, err := h.Begin(h.t.Context(), q)
	if err != nil || d.Verdict != want {
		h.t.Fatalf("Begin: %v, %v; want %v", d.Verdict, err, want)
	}
	if (d.Claim != nil) != (want == stet.Execute) {
		h.t.Fatalf("%v with claim %v", d.Verdict, d.Claim)
	}
	return d
}

func (h *house) record(key string) stet.Record {
	h.t.Helper()
	r, err := h.Get(h.t.Context(), stet.ID{Scope: "s", Key: stet.Key(key)})
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

func (h *house) settle(c *stet.Claim) {
	h.t.Helper()
	if err := c.Settle(h.t.Context(), result("ok")); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) saw(match func(stet.Event) bool) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if match(e) {
			n++
		}
	}
	return n
}

func result(body string) stet.Outcome {
	return stet.Outcome{Response: stet.Response{Status: 201, Body: []byte(body)}}
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, c stet.Config, test func(h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, c)
		test(h)
		h.store.Up() // what the engine still has to store would go on for ever
		if err := h.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// after lets virtual time pass.
func after(d time.Duration) { <-time.After(d) }

func TestLifeOfAKey(t *testing.T) { // "Life of a key", row by row
	bubble(t, stet.Config{}, func(h *house) {
		first := h.begin(request("k"), stet.Execute)
		h.begin(request("k"), stet.InProgress)
		h.begin(other("k"), stet.Mismatch) // before every other answer (CC-09)
		h.settle(first.Claim)
		if d := h.begin(request("k"), stet.Replay); string(d.Record.Response.Body) != "ok" || d.Record.Status != 201 {
			h.t.Errorf("replay: %+v", d.Record.Response)
		}
		h.begin(other("k"), stet.Mismatch)
		after(stet.DefaultRetain)
		second := h.begin(other("k"), stet.Execute) // a new life, for any payload
		if second.Claim.Attempt() != 1 || second.Claim.Fence() <= first.Claim.Fence() || second.Record.Response != nil {
			h.t.Errorf("a new life: attempt %d, fence %d after %d", second.Claim.Attempt(), second.Claim.Fence(), first.Claim.Fence())
		}
		second.Claim.NotExecuted("declined")
		h.settle(second.Claim)
		h.begin(request("k"), stet.Mismatch) // the fingerprint is kept
		third := h.begin(other("k"), stet.Execute)
		if third.Claim.Attempt() != 2 || third.Claim.Fence() <= second.Claim.Fence() {
			h.t.Errorf("a retry: attempt %d, fence %d after %d", third.Claim.Attempt(), third.Claim.Fence(), second.Claim.Fence())
		}
		third.Claim.Unknown("reset")
		h.settle(third.Claim)
		after(1000 * time.Hour)
		if d := h.begin(other("k"), stet.Unresolved); d.Record.Cause != "reset" { // never by time alone (I10)
			h.t.Errorf("cause %q", d.Record.Cause)
		}
	})
}

func TestLapsedLeaseProvesNothing(t *testing.T) { // I1
	for _, c := range []struct {
		name  string
		rules stet.Rules
		point string
		want  stet.Verdict
	}{
		{"unknown", stet.Rules{}, "p", stet.Unresolved},
		{"resume without a point", stet.Rules{OnLapse: stet.LapseResume}, "", stet.Unresolved},
		{"resume", stet.Rules{OnLapse: stet.LapseResume}, "charged", stet.Execute},
		{"reexecute", stet.Rules{OnLapse: stet.LapseReexecute}, "", stet.Execute},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, stet.Config{Policy: stet.Policy{Rules: c.rules}}, func(h *house) {
				d := h.begin(request("k"), stet.Execute)
				if c.point != "" {
					if err := d.Claim.Step(h.t.Context(), stet.Step{Point: c.point, Progress: []byte("progress")}); err != nil {
						h.t.Fatal(err)
					}
				}
				after(stet.DefaultLease - time.Microsecond)
				h.begin(request("k"), stet.InProgress)
				after(time.Microsecond)
				again := h.begin(request("k"), c.want)
				if c.want == stet.Execute && (again.Claim.Attempt() != 2 || string(again.Record.Progress) != "progress" && c.point != "") {
					h.t.Errorf("attempt %d, progress %q", again.Claim.Attempt(), again.Record.Progress)
				}
				if err := d.Claim.Settle(h.t.Context(), result("late")); !errors.Is(err, stet.ErrFenced) { // I3, CR-02
					h.t.Errorf("the holder that was overtaken settled: %v", err)
				}
				if again.Claim != nil {
					h.settle(again.Claim)
				}
			})
		})
	}
}

func TestStoreErrorsExecuteNothing(t *testing.T) { // I8, W2
	bubble(t, stet.Config{}, func(h *house) {
		h.store.Down()
		began := time.Now()
		d, err := h.Begin(h.t.Context(), request("k"))
		if !errors.Is(err, stet.ErrUnsettled) || !errors.Is(err, faulty.ErrFault) || d.Claim != nil {
			h.t.Fatalf("Begin without a store: %+v, %v", d, err)
		}
		if took := time.Since(began); took > stet.DefaultStoreTimeout {
			h.t.Errorf("it took %v", took)
		}
		h.store.Up()
		h.store.Slow(time.Hour)
		began = time.Now()
		if _, err := h.Begin(h.t.Context(), request("k")); err == nil || time.Since(began) != stet.DefaultStoreTimeout {
			h.t.Errorf("a store that hangs: %v after %v", err, time.Since(began))
		}
		h.store.Up()
		h.begin(request("k"), stet.Execute)
		h.store.Corrupt(stet.ID{Scope: "s", Key: "k"})
		if _, err := h.Begin(h.t.Context(), request("k")); !errors.Is(err, stet.ErrCorrupt) {
			h.t.Errorf("a corrupt record: %v", err)
		}
		_ = h.Drain(h.t.Context())
	})
}

func TestLostRepliesAreRecognised(t *testing.T) { // I11, W2: a request never meets itself
	bubble(t, stet.Config{}, func(h *house) {
		h.store.LoseReplies(2) // each second write
		for i := range 20 {
			key := fmt.Sprint(i)
			d := h.begin(request(key), stet.Execute)
			if err := d.Claim.Renew(h.t.Context()); err != nil {
				h.t.Fatal(err)
			}
			h.settle(d.Claim)
			h.begin(request(key), stet.Replay)
		}
	})
}

func TestLookupOnlyWritesNothing(t *testing.T) { // S1-48
	bubble(t, stet.Config{}, func(h *house) {
		look := func(key string) stet.Request {
			q := request(key)
			q.LookupOnly = true
			return q
		}
		h.begin(look("k"), stet.Absent)
		if _, err := h.Get(h.t.Context(), request("k").ID); !errors.Is(err, stet.ErrNotFound) {
			h.t.Fatalf("something was stored: %v", err)
		}
		d := h.begin(request("k"), stet.Execute)
		h.begin(look("k"), stet.InProgress)
		after(stet.DefaultLease)
		h.begin(look("k"), stet.Unresolved)
		if h.record("k").State != stet.Running {
			h.t.Error("a lookup changed the record")
		}
		d.Claim.NotExecuted("x")
		h.settle(d.Claim)
		h.begin(look("k"), stet.Absent) // it would have to execute
		h.settle(h.begin(request("k"), stet.Execute).Claim)
		h.begin(look("k"), stet.Replay)
	})
}

func TestRetention(t *testing.T) { // TT-01, TT-08
	for _, c := range []struct {
		name  string
		rules stet.Rules
		run   time.Duration
		at    time.Duration // since completion
		want  stet.Verdict
	}{
		{"from completion", stet.Rules{Retain: time.Hour}, time.Minute / 2, time.Hour - 1000, stet.Replay},
		{"from completion, over", stet.Rules{Retain: time.Hour}, time.Minute / 2, time.Hour, stet.Execute},
		{"from creation", stet.Rules{Retain: time.Hour, FromCreation: true}, time.Minute / 2, time.Hour - time.Minute/2 - 1000, stet.Replay},
		{"from creation, over", stet.Rules{Retain: time.Hour, FromCreation: true}, time.Minute / 2, time.Hour - time.Minute/2, stet.Execute},
		{"kept expired", stet.Rules{Retain: time.Hour, KeepExpired: time.Hour}, 0, 2*time.Hour - 1000, stet.Gone},
		{"kept expired, over", stet.Rules{Retain: time.Hour, KeepExpired: time.Hour}, 0, 2 * time.Hour, stet.Execute},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, stet.Config{Policy: stet.Policy{Rules: c.rules}}, func(h *house) {
				d := h.begin(request("k"), stet.Execute)
				after(c.run)
				h.settle(d.Claim)
				after(c.at)
				h.begin(request("k"), c.want)
			})
		})
	}
}

func TestOlderRecipeIsHonoured(t *testing.T) { // I9, FP-30, T20
	bubble(t, stet.Config{}, func(h *house) {
		fields, err := stet.Recipe{Body: stet.BodyFields, Fields: []string{"/amount"}}.Compile()
		if err != nil {
			h.t.Fatal(err)
		}
		ask := func(recipe *stet.Fingerprinter, body string, want stet.Verdict) stet.Decision {
			q := request("k")
			q.Recipe, q.Subject.Body = recipe, []byte(body)
			q.Subject.Header = map[string][]string{"Content-Type": {"application/json"}}
			return h.begin(q, want)
		}
		h.settle(ask(fields, `{"amount":1,"note":"a"}`, stet.Execute).Claim)
		ask(nil, `{"amount":1,"note":"b"}`, stet.Replay) // today's recipe would call it another request
		ask(nil, `{"amount":2,"note":"a"}`, stet.Mismatch)
	})
}

func TestSweepAndReap(t *testing.T) { // I10, I15, TT-05..TT-07, CR-15
	bubble(t, stet.Config{}, func(h *house) {
		reexecute := request("again")
		reexecute.Policy = &stet.Policy{Rules: stet.Rules{OnLapse: stet.LapseReexecute}}
		keep := request("keep")
		keep.Policy = &stet.Policy{Rules: stet.Rules{KeepExpired: time.Hour}}
		h.begin(request("lapses"), stet.Execute)
		h.begin(reexecute, stet.Execute)
		h.settle(h.begin(request("done"), stet.Execute).Claim)
		h.settle(h.begin(keep, stet.Execute).Claim)
		free := h.begin(request("free"), stet.Execute).Claim
		free.NotExecuted("x")
		h.settle(free)
		count := func(what string, f func(context.Context, string, int) (int, string, error), want int) {
			h.t.Helper()
			if n, _, err := f(h.t.Context(), "", 100); err != nil || n != want {
				h.t.Fatalf("%s: %d, %v; want %d", what, n, err, want)
			}
		}
		count("sweep before the lease is over", h.Operator().Sweep, 0)
		after(stet.DefaultLease)
		count("sweep", h.Operator().Sweep, 1)
		count("sweep again", h.Operator().Sweep, 0)
		if r := h.record("lapses"); r.State != stet.Unknown || r.Cause != "lease-lapsed" {
			h.t.Errorf("swept: %v, %q", r.State, r.Cause)
		}
		count("reap before the retention is over", h.Operator().Reap, 0)
		after(stet.DefaultRetain)
		count("reap", h.Operator().Reap, 3)
		if h.record("keep").State != stet.Expired {
			h.t.Error("an expired key was not kept")
		}
		h.begin(keep, stet.Gone)
		for _, key := range []string{"lapses", "again"} {
			h.record(key) // running and unknown ones stay
		}
		after(time.Hour)
		count("reap what was kept", h.Operator().Reap, 1)
		count("reap again", h.Operator().Reap, 0)
	})
}

func TestSweepSeesPastWhatMayRunAgain(t *testing.T) { // I15
	bubble(t, stet.Config{}, func(h *house) {
		for i := range 20 {
			q := request(fmt.Sprint("again", i))
			q.Policy = &stet.Policy{Rules: stet.Rules{OnLapse: stet.LapseReexecute}}
			h.begin(q, stet.Execute)
		}
		after(time.Second)
		h.begin(request("lapses"), stet.Execute)
		after(stet.DefaultLease)
		swept, pages := 0, 0
		for after := ""; pages == 0 || after != ""; pages++ {
			n, next, err := h.Operator().Sweep(h.t.Context(), after, 5)
			if err != nil || pages > 5 {
				h.t.Fatal(pages, err)
			}
			swept, after = swept+n, next
		}
		if swept != 1 {
			h.t.Errorf("%d swept: those that are left to a request hide the others", swept)
		}
	})
}

func TestTwoSweepersAndARequestMoveOnce(t *testing.T) { // W16, CR-15
	bubble(t, stet.Config{}, func(h *house) {
		h.begin(request("k"), stet.Execute)
		after(stet.DefaultLease)
		var swept atomic.Int64
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				n, _, err := h.Operator().Sweep(h.t.Context(), "", 10)
				if err != nil {
					h.t.Error(err)
				}
				swept.Add(int64(n))
			})
			wg.Go(func() { h.begin(request("k"), stet.Unresolved) })
		}
		wg.Wait()
		if n := h.saw(func(e stet.Event) bool { return e.Kind == stet.Transition && e.To == stet.Unknown }); n != 1 || swept.Load() > 1 {
			h.t.Errorf("%d transitions, %d of them swept", n, swept.Load())
		}
	})
}

func TestOneRacerTakesARetryableRecord(t *testing.T) { // CC-11, S2-41
	bubble(t, stet.Config{}, func(h *house) {
		c := h.begin(request("k"), stet.Execute).Claim
		c.NotExecuted("x")
		h.settle(c)
		h.store.Slow(time.Millisecond) // all of them see it, before the first takes it
		var ran atomic.Int64
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				d, err := h.Begin(h.t.Context(), request("k"))
				if err != nil {
					h.t.Error(err)
				}
				if d.Verdict == stet.Execute {
					ran.Add(1)
				}
			})
		}
		wg.Wait()
		if ran.Load() != 1 {
			h.t.Errorf("%d racers execute", ran.Load())
		}
	})
}

func TestTagsDoNotJoin(t *testing.T) { // SC-08, T1
	h := newHouse(t, stet.Config{Pepper: []byte("pepper")})
	a := stet.ID{Scope: "a", Key: "b:c"}
	for _, b := range []stet.ID{{Scope: "a:b", Key: "c"}, {Scope: "ab", Key: ":c"}, {Scope: "", Key: "ab:c"}} {
		if h.Tag(a) == h.Tag(b) || len(h.Tag(a)) != len("k_")+16 {
			t.Errorf("%s, %s", h.Tag(a), h.Tag(b))
		}
	}
	if newHouse(t, stet.Config{}).Tag(a) == h.Tag(a) {
		t.Error("the pepper does not matter")
	}
}

func TestConfigIsValidated(t *testing.T) {
	for _, c := range []stet.Config{{StoreTimeout: -1}, {MaxWaiters: -1}, {Policy: stet.Policy{Lease: -1}}, {Policy: stet.Policy{Lease: 60}}, {StoreTimeout: 2},
		{Policy: stet.Policy{Execution: 30}}, {Policy: stet.Policy{Rules: stet.Rules{Retain: 24}}}, {Policy: stet.Policy{Lease: math.MaxInt64}},
		{Policy: stet.Policy{Execution: -5}},
		{Policy: stet.Policy{Rules: stet.Rules{Retain: -1}}}, {Policy: stet.Policy{Rules: stet.Rules{KeepExpired: -1}}}, {Policy: stet.Policy{Rules: stet.Rules{OnLapse: 9}}}} {
		if _, err := stet.New(memstore.New(memstore.Config{}), c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
	if _, err := stet.New(nil, stet.Config{}); err == nil {
		t.Error("an engine without a store was made")
	}
	h := newHouse(t, stet.Config{})
	for _, id := range []stet.ID{{Key: "k"}, {Scope: "s"}} {
		if _, err := h.Begin(t.Context(), stet.Request{ID: id}); err == nil {
			t.Errorf("%+v was decided", id)
		}
	}
}
