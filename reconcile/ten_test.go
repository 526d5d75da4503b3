package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/maintenance"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/store/memstore"
)

// slow is a store that takes its time before and after every call, so that all that work on the
// same records meets in every way.
type slow struct {
	stet.Store
	mu       sync.Mutex
	random   *rand.Rand
	careless bool // a write that names an older version happens all the same
}

func (s *slow) pause() {
	s.mu.Lock()
	d := time.Duration(s.random.IntN(50)) * time.Millisecond
	s.mu.Unlock()
	time.Sleep(d)
}

func (s *slow) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	s.pause()
	defer s.pause()
	return s.Store.Create(ctx, r)
}

func (s *slow) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	s.pause()
	defer s.pause()
	return s.Store.Get(ctx, id)
}

func (s *slow) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	s.pause()
	defer s.pause()
	got, err := s.Store.Replace(ctx, prev, h, b)
	if s.careless && errors.Is(err, stet.ErrStale) {
		return s.Store.Replace(ctx, got.Version, h, b)
	}
	return got, err
}

func (s *slow) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	s.pause()
	defer s.pause()
	err := s.Store.Delete(ctx, id, prev)
	if s.careless && errors.Is(err, stet.ErrNotFound) {
		return nil
	}
	return err
}

func (s *slow) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	s.pause()
	defer s.pause()
	return s.Store.Due(ctx, q)
}

// deeds counts what was done, to whom.
type deeds struct {
	mu   sync.Mutex
	done map[string]int
}

func (d *deeds) add(what string, id stet.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done[what+" "+string(id.Key)]++
}

// observed are the transitions that keepers make, and the probes.
func (d *deeds) observed(e stet.Event) {
	switch {
	case e.Kind == stet.Transition && e.By != "holder" && e.From != 0:
		d.add(fmt.Sprintf("%s: %s to %s", e.By, e.From, e.To), e.ID)
	case e.Kind == stet.Probed:
		d.add("probe "+e.Result, e.ID)
	}
}

type state struct{ N int }

// tenOfEach lets ten hosts, each with an engine and one of every keeper, work for a while on
// records that need all of them, and returns what was done.
func tenOfEach(t *testing.T, careless bool, seed uint64) (done, want map[string]int) {
	const hosts, each, every = 10, 10, time.Second / 2 // they meet all the time
	d := &deeds{done: map[string]int{}}
	want = map[string]int{}
	store := &slow{Store: memstore.New(memstore.Config{}), random: rand.New(rand.NewPCG(seed, 2)), careless: careless}
	open := func(observe func(stet.Event)) (*stet.Engine, *flow.Flow[state]) {
		e, err := stet.New(store, stet.Config{Observe: observe})
		if err != nil {
			t.Fatal(err)
		}
		f, err := flow.New(flow.Config[state]{Name: "f", Engine: e, Answer: func(*state) stet.Response { return stet.Response{Status: 201} }},
			flow.Foreign("pay", func(ctx context.Context, call *flow.Call, s *state) error {
				return call.Do(ctx, func(_ context.Context, key string) error {
					s.N++
					d.add("paid", stet.ID{Key: stet.Key(key)})
					return nil
				})
			}))
		if err != nil {
			t.Fatal(err)
		}
		return e, f
	}
	first, _ := open(nil)
	begin := func(key, point string, rules stet.Rules) *stet.Claim {
		q := stet.Request{ID: stet.ID{Scope: "s", Key: stet.Key(key)}, Policy: &stet.Policy{Rules: rules}}
		if q.Point = point; point != "" {
			q.Keep = []byte(`{"flow":"f","schema":1,"state":{}}`)
		}
		got, err := first.Begin(t.Context(), q)
		if err != nil || got.Verdict != stet.Execute {
			t.Fatal(got.Verdict, err)
		}
		return got.Claim
	}
	for i := range each {
		lapses, over, refused := fmt.Sprint("lapses", i), fmt.Sprint("over", i), fmt.Sprint("refused", i)
		begin(lapses, "", stet.Rules{})
		want["sweeper: running to unknown "+lapses] = 1
		want["probe scheduled "+lapses], want["probe resolved "+lapses], want["asked "+lapses] = 1, 1, 1
		want["operator: unknown to completed "+lapses] = 1

		_ = begin(over, "", stet.Rules{Retain: time.Minute}).Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 200}})
		want["reaper: completed to State(0) "+over] = 1
		_ = begin(refused, "", stet.Rules{Retain: time.Minute, KeepExpired: 2 * time.Minute}).Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 200}})
		want["reaper: completed to expired "+refused], want["reaper: expired to State(0) "+refused] = 1, 1

		c := begin(fmt.Sprint("suspended", i), "pay", stet.Rules{OnLapse: stet.LapseResume})
		progress := []byte(`{"flow":"f","schema":1,"state":{},"not_sent":1}`)
		if err := c.Suspend(t.Context(), stet.Step{Point: "pay", Progress: progress}, time.Minute); err != nil {
			t.Fatal(err)
		}
		want["request: running to running "+string(c.ID().Key)] = 1
	}

	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	var keepers sync.WaitGroup
	for range hosts {
		e, f := open(d.observed)
		resolver := reconcile.Resolver(func(_ context.Context, h stet.Head) (reconcile.Finding, error) {
			store.pause()
			d.add("asked", h.ID)
			return reconcile.Finding{Effect: reconcile.Happened, Response: &stet.Response{Status: 201}}, nil
		})
		for _, run := range []func(context.Context) error{
			maintenance.Sweeper{Engine: e, Every: every}.Run, maintenance.Reaper{Engine: e, Every: every}.Run,
			reconcile.Reconciler{Engine: e, Resolver: resolver, Every: every}.Run,
			flow.Completer{Engine: e, Flows: []flow.Resumer{f}, Every: every}.Run,
		} {
			keepers.Go(func() {
				if err := run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
	}
	keepers.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	paid := 0
	for what, n := range d.done {
		if len(what) > 5 && what[:5] == "paid " { // by a key that is not known here
			paid += n
			delete(d.done, what)
		}
	}
	d.done["paid"], want["paid"] = paid, each
	return d.done, want
}

// Of ten sweepers, reapers, reconcilers and completers on as many hosts one makes each transition,
// asks each question and has each effect.
func TestTenOfEachKeeperDoEverythingOnce(t *testing.T) { // I1, I14, CR-15
	synctest.Test(t, func(t *testing.T) {
		done, want := tenOfEach(t, false, 1)
		if !maps.Equal(done, want) {
			for what, n := range want {
				if done[what] != n {
					t.Errorf("%s: %d times, want %d", what, done[what], n)
				}
				delete(done, what)
			}
			t.Errorf("beside that: %v", done)
		}
	})
}

// It is the compare-and-set of the store's writes that makes it so: the test would see its absence.
// Which keepers meet in one run is chance; in one of twenty runs each kind has met.
func TestWithoutCompareAndSetKeepersDoThingsTwice(t *testing.T) {
	missing := map[string]bool{"sweeper:": true, "reaper:": true, "asked": true, "request:": true, "paid": true}
	for seed := uint64(1); len(missing) > 0 && seed <= 20; seed++ {
		synctest.Test(t, func(t *testing.T) {
			done, want := tenOfEach(t, true, seed)
			for what, n := range done {
				if n > want[what] && want[what] > 0 {
					by, _, _ := strings.Cut(what, " ")
					delete(missing, by)
				}
			}
		})
	}
	for by := range missing {
		t.Errorf("%s: nothing was done twice", by)
	}
}
