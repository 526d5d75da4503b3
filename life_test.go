package stet_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
)

var lives = flag.Int("lives", 150, "how many random histories TestRandomLives runs")

// TestRandomLives lets two processes, clients, loops, crashes, lost messages and a store clock that jumps do what they like to a
// few keys, one step at a time, and holds every step against what the project promises. What is promised is stated by
// observing effects and answers only; no rule of the engine is called to tell what another should have done.
func TestRandomLives(t *testing.T) { // I1, I2, I3, I9, I10; W2 .. W5, W8 .. W10, W16 .. W19
	var steps, executed int
	for seed := range *lives {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, uint64(seed))
			for range 200 {
				w.step()
			}
			w.end()
			steps, executed = steps+200, executed+w.executed
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if executed < *lives*5 {
		t.Errorf("only %d executions in %d steps: nothing was put to the test", executed, steps)
	}
}

// world is what one history happens in.
type world struct {
	*testing.T
	random   *rand.Rand
	shelf    *shelf
	engines  [2]*stet.Engine
	mu       sync.Mutex
	loss     float64 // of each message, either way; under mu
	keys     map[stet.Key]*fate
	open     []*run
	executed int
}

// fate is what is known of one key from the outside.
type fate struct {
	fence   int64
	last    *run                 // the newest execution
	replies map[string]*run      // by what was answered
	answers map[time.Time][]byte // the first reply of each life, by the life's beginning
}

// run is one execution of a handler.
type run struct {
	key     stet.Key
	payload string
	rules   stet.Rules
	claim   *stet.Claim
	answer  []byte
	effect  bool      // it did what cannot be undone
	point   bool      // it stored a recovery point
	proven  bool      // it said that nothing happened, and nothing had
	ended   bool      // nothing more will come from it
	mayEnd  time.Time // by the store's clock: when its result may first be forgotten; zero: not at all
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{T: t, random: rand.New(rand.NewPCG(seed, 1)), shelf: &shelf{}, keys: map[stet.Key]*fate{}}
	weather := rand.New(rand.NewPCG(seed, 2)) // of its own: what goes on in the background asks, too
	lose := func(string, int) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if weather.Float64() < w.loss {
			return errLost
		}
		return nil
	}
	w.shelf.before, w.shelf.after = lose, lose
	for i := range w.engines {
		e, err := stet.New(w.shelf, stet.Config{Holder: fmt.Sprint("process ", i)})
		if err != nil {
			t.Fatal(err)
		}
		w.engines[i] = e
	}
	return w
}

func (w *world) engine() *stet.Engine { return w.engines[w.random.IntN(len(w.engines))] }

func (w *world) weather(loss float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loss = loss
}

func (w *world) step() {
	w.weather([]float64{0, 0, 0.1, 0.3}[w.random.IntN(4)])
	before := w.snapshot()
	switch w.random.IntN(10) {
	case 0, 1, 2:
		w.request()
	case 3, 4:
		w.work()
	case 5:
		w.settle()
	case 6:
		w.pass([]time.Duration{time.Second, 20 * time.Second, time.Minute, time.Hour, 24 * time.Hour}[w.random.IntN(5)])
	case 7:
		w.shelf.skew += time.Duration(w.random.IntN(int(2 * time.Minute))) // the store's clock jumps
	case 8:
		w.loop(before, "sweep", w.engine().Sweep)
	case 9:
		w.loop(before, "reap", w.engine().Reap)
	}
	synctest.Wait()
	w.pass(time.Millisecond)
}

// pass lets time go by, with messages being lost.
func (w *world) pass(d time.Duration) { after(d) }

func (w *world) snapshot() map[stet.ID]stet.Record {
	all := map[stet.ID]stet.Record{}
	w.shelf.mu.Lock()
	defer w.shelf.mu.Unlock()
	for id, r := range w.shelf.records {
		all[id] = r
	}
	return all
}

var policies = []stet.Rules{{Retain: time.Hour}, {Retain: time.Hour}, {Retain: time.Hour, KeepExpired: time.Hour},
	{Retain: time.Hour, OnLapse: stet.LapseResume}, {Retain: time.Hour, OnLapse: stet.LapseReexecute}}

// request is a client that asks, and now and then waits.
func (w *world) request() {
	key := stet.Key(fmt.Sprint(w.random.IntN(3)))
	payload := fmt.Sprint(w.random.IntN(2))
	rules := policies[w.random.IntN(len(policies))]
	q := stet.Request{ID: stet.ID{Scope: "s", Key: key}, Subject: stet.Subject{Body: []byte(payload)}, Meta: map[string]string{"payload": payload},
		Policy: &stet.Policy{Lease: time.Minute, Execution: stet.Never, Rules: rules}, LookupOnly: w.random.IntN(8) == 0}
	was, there := w.shelf.read(q.ID)
	e := w.engine()
	d, err := e.Begin(w.Context(), q)
	if err == nil && d.Verdict == stet.InProgress && w.random.IntN(2) == 0 {
		d, err = e.Await(w.Context(), d, time.Duration(w.random.IntN(int(2*time.Minute))))
		if d.Claim != nil {
			w.Fatalf("who had waited was to execute %s", string(key))
		}
		was, there = stet.Record{}, false // it may be another by now
	}
	if err != nil {
		if d.Claim != nil {
			w.Fatal("an error came with a claim")
		}
		return
	}
	live := there && (was.State == stet.Running || was.State == stet.Unknown || !was.Over())
	if live && was.State != stet.Expired && was.Meta["payload"] != payload && d.Verdict != stet.Mismatch {
		w.Fatalf("%s is %v for payload %s, and payload %s was told %v", string(key), was.State, was.Meta["payload"], payload, d.Verdict)
	}
	f := w.fate(key)
	switch d.Verdict {
	case stet.Execute:
		if q.LookupOnly {
			w.Fatal("a lookup was to execute")
		}
		w.execute(f, &run{key: key, payload: payload, rules: rules, claim: d.Claim}, was)
	case stet.Replay:
		w.replayed(f, payload, &d.Record)
	}
}

func (w *world) fate(key stet.Key) *fate {
	if w.keys[key] == nil {
		w.keys[key] = &fate{replies: map[string]*run{}, answers: map[time.Time][]byte{}}
	}
	return w.keys[key]
}

// execute checks that r was allowed to begin: that the execution before it can have had no effect, is forgotten by now, or
// belongs to somebody who chose to risk it.
func (w *world) execute(f *fate, r *run, was stet.Record) {
	w.executed++
	now := w.shelf.now()
	if p := f.last; p != nil && !p.proven {
		forgotten := !p.mayEnd.IsZero() && !now.Before(p.mayEnd)
		risked := p.rules.OnLapse == stet.LapseReexecute || p.rules.OnLapse == stet.LapseResume && p.point
		lapsed := was.State == stet.Running && !now.Before(was.DueAt) // it may have lapsed while the store was asked
		if !forgotten && !(risked && lapsed) {
			w.Fatalf("%s runs again: before it ran with effect %v, ended %v, may be forgotten at %v; now is %v, the record was %v, %+v",
				string(r.key), p.effect, p.ended, p.mayEnd, now, was.State, p.rules)
		}
	}
	if r.claim.Fence() <= f.fence {
		w.Fatalf("fence %d after %d", r.claim.Fence(), f.fence)
	}
	f.fence, f.last, r.point = r.claim.Fence(), r, was.Point != "" // what an earlier run had reached
	w.open = append(w.open, r)
}

// replayed checks that an answer is one that was given to this request, and the same for all of its life.
func (w *world) replayed(f *fate, payload string, rec *stet.Record) {
	if rec.Response == nil {
		w.Fatal("a replay without a response")
	}
	r := f.replies[string(rec.Response.Body)]
	if r == nil || r.payload != payload {
		w.Fatalf("the answer %q was given to nobody who asked for %s", rec.Response.Body, payload)
	}
	first, ok := f.answers[rec.CreatedAt]
	if !ok {
		f.answers[rec.CreatedAt] = rec.Response.Body
	} else if !bytes.Equal(first, rec.Response.Body) {
		w.Fatalf("the first answer was %q, and now it is %q", first, rec.Response.Body)
	}
}

// pick takes one of the runs that are open.
func (w *world) pick() *run {
	if len(w.open) == 0 {
		return nil
	}
	return w.open[w.random.IntN(len(w.open))]
}

// work lets a handler do something, also one whose claim was overtaken while it did not look.
func (w *world) work() {
	r := w.pick()
	if r == nil {
		return
	}
	switch w.random.IntN(3) {
	case 0:
		r.effect = true
	case 1:
		if r.claim.Advance(w.Context(), fmt.Sprint(w.random.IntN(3)), []byte("p")) == nil {
			r.point = true
		}
		r.point = r.point || w.loss > 0 // it may have happened
	case 2:
		_ = r.claim.Renew(w.Context())
	}
}

// settle ends a run: with its outcome, or by a crash.
func (w *world) settle() {
	r := w.pick()
	if r == nil {
		return
	}
	id := r.claim.ID()
	before, _ := w.shelf.read(id)
	var o stet.Outcome
	switch n := w.random.IntN(4); {
	case n == 0 && !r.effect:
		r.claim.NotExecuted("nothing happened")
		r.proven = true
	case n == 1:
		r.claim.Unknown("timeout")
	default:
		r.answer = fmt.Appendf(nil, "answer %d", r.claim.Fence())
		w.fate(r.key).replies[string(r.answer)] = r
		o = stet.Outcome{Response: stet.Response{Status: 201, Body: r.answer}}
		r.mayEnd = w.shelf.now().Add(r.rules.Retain)
	}
	err := r.claim.Settle(w.Context(), o)
	if now, _ := w.shelf.read(id); errors.Is(err, stet.ErrFenced) {
		before.AsOf = now.AsOf
		if !reflect.DeepEqual(before, now) && !testified(&before, &now) {
			w.Fatalf("a stale holder changed %s from %v to %v", string(r.key), before.State, now.State)
		}
		r.mayEnd = time.Time{}
	}
	r.ended = true
	w.open = remove(w.open, r)
}

// testified: all that a stale holder may leave is evidence, with a record that is unknown and stays so.
func testified(before, now *stet.Record) bool {
	lapsed := before.State == stet.Running && before.Over()
	return (before.State == stet.Unknown || lapsed) && now.State == stet.Unknown && now.Note != nil && now.Note.Evidence != "" &&
		now.Attempt == before.Attempt && now.CreatedAt.Equal(before.CreatedAt) && bytes.Equal(now.Progress, before.Progress)
}

func remove(all []*run, r *run) (rest []*run) {
	for _, o := range all {
		if o != r {
			rest = append(rest, o)
		}
	}
	return rest
}

// loop runs a background loop, and checks that nothing that may still be alive is gone.
func (w *world) loop(before map[stet.ID]stet.Record, name string, do func(context.Context, int) (int, error)) {
	_, _ = do(w.Context(), 10)
	now := w.shelf.now()
	for id, r := range before {
		have, there := w.shelf.read(id)
		switch {
		case there && have.Version == r.Version:
		case r.State == stet.Running && there && have.State == stet.Unknown && !now.Before(r.DueAt):
		case r.State == stet.Running, r.State == stet.Unknown, now.Before(r.DueAt):
			w.Fatalf("%s: %s was %v, due %v; now, at %v, it is %v (%v)", name, string(id.Key), r.State, r.DueAt, now, have.State, there)
		}
	}
}

// end lets all who run settle, and what is promised in the background happen.
func (w *world) end() {
	w.weather(0)
	for _, r := range w.open {
		r.claim.Unknown("end")
		_ = r.claim.Settle(w.Context(), stet.Outcome{})
	}
	for _, e := range w.engines {
		if err := e.Drain(w.Context()); err != nil {
			w.Fatal(err)
		}
	}
}
