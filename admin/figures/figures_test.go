package figures_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin/figures"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/memstore"
)

// process is one of several on a store, with a board that runs.
type process struct {
	testing.TB
	*figures.Board
	engine *stet.Engine
	end    func() // ends it in order
}

func start(t testing.TB, s stet.Store, holder string) *process {
	t.Helper()
	b := figures.New(figures.Config{Version: "v1"})
	e, err := stet.New(s, stet.Config{Observe: b.Observe, Holder: holder})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := b.Run(ctx, e); err != nil {
			t.Error(err)
		}
	})
	p := &process{t, b, e, func() { cancel(); running.Wait() }}
	t.Cleanup(p.end)
	synctest.Wait()
	return p
}

// answers tells the board of n answers.
func (p *process) answers(n int, e stet.Event) {
	e.Kind = stet.Answer
	for range n {
		p.Observe(e)
	}
}

func (p *process) figures() operate.Figures {
	time.Sleep(10 * time.Second) // all have published, and no reader is given what it was given before
	return p.Figures(p.Context())
}

// gateway is what a process is told of another.
func (p *process) gateway(name string) operate.Gateway {
	p.Helper()
	all := p.figures().Gateways
	for _, g := range all {
		if g.Name == name {
			return g
		}
	}
	p.Fatalf("there is no %s among %+v", name, all)
	return operate.Gateway{}
}

// rates are the rates of a result, the newest last.
func rates(all []operate.Series, result string) []float64 {
	for _, s := range all {
		if s.Result == result {
			return s.PerSecond
		}
	}
	return nil
}

func sum(rates []float64, step time.Duration) (n float64) {
	for _, r := range rates {
		n += r * step.Seconds()
	}
	return n
}

var replay = stet.Event{Result: "replay", Route: "POST /pay", ID: stet.ID{Scope: "acme", Key: "key"}}

// What requests were told is told by the step and by the route.
func TestSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, memstore.New(memstore.Config{}), "gw-1:1")
		time.Sleep(time.Second / 2) // no answer is given at the very end of a step
		for range 3600 {            // an hour of two a second
			p.answers(2, replay)
			time.Sleep(time.Second)
		}
		p.answers(1, stet.Event{Result: "bypass", Route: "PUT /names", Unprotected: true})
		f := p.figures()
		hour := rates(f.Hour, "replay")
		if len(hour) != 240 || hour[10] != 2 || hour[237] != 2 || len(rates(f.Day, "replay")) != 96 {
			t.Errorf("%v", hour)
		}
		if got := sum(rates(f.Day, "replay"), 15*time.Minute); got < 3*1800 || got > 7200 { // the last quarter is not over
			t.Errorf("%v in a day", got)
		}
		if until := f.Hour[0].Until; until.After(f.At) || f.At.Sub(until) > 25*time.Second || f.Hour[0].Step != 15 {
			t.Errorf("until %s at %s", until, f.At)
		}
		want := []operate.RouteFigures{{Route: "POST /pay", Results: map[string]int{"replay": 7200}},
			{Route: "PUT /names", Results: map[string]int{"bypass": 1}, Unprotected: 1}}
		if fmt.Sprint(f.Routes) != fmt.Sprint(want) {
			t.Errorf("%+v", f.Routes)
		}
		if g := f.Gateways; len(g) != 1 || g[0].Name != "gw-1:1" || g[0].State != "ready" || g[0].Version != "v1" || g[0].PerSecond < 1 {
			t.Errorf("%+v", g)
		}
		p.end()
		time.Sleep(25 * time.Hour)
		if f = p.figures(); len(f.Hour)+len(f.Day)+len(f.Routes) > 0 {
			t.Errorf("a day later: %+v", f)
		}
	})
}

// Each process knows what all have counted.
func TestTwoProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{})
		one, two := start(t, store, "gw-1:1"), start(t, store, "gw-2:1")
		id := stet.ID{Scope: "acme", Key: "who knows"}
		began := time.Now()
		one.answers(2, stet.Event{Result: "unknown", Route: "POST /pay", ID: id})
		time.Sleep(time.Minute)
		two.answers(3, stet.Event{Result: "unknown", Route: "POST /pay", ID: id})
		asked := time.Now()
		two.answers(1, stet.Event{Result: "conflict", Route: "POST /pay", ID: id, Mismatch: []string{"body"}, TraceID: "4bf9"})
		for _, p := range []*process{one, two} {
			f := p.figures()
			if len(f.Gateways) != 2 || f.Gateways[0].Name != "gw-1:1" || f.Gateways[1].Name != "gw-2:1" {
				t.Errorf("%+v", f.Gateways)
			}
			if fmt.Sprint(f.Routes) != "[{POST /pay   map[conflict:1 unknown:5] map[] 0 1}]" {
				t.Errorf("%+v", f.Routes)
			}
			if a, _ := p.Asking(t.Context(), p.engine.Tag(id), began.Add(30*time.Second)); a == nil || a.Count != 3 || a.More {
				t.Errorf("since half a minute later: %+v", a)
			}
			if a, m := p.Asking(t.Context(), p.engine.Tag(id), time.Time{}); a != nil || m == nil {
				t.Errorf("of a record that is not unknown: %+v, %+v", a, m)
			}
			a, m := p.Asking(t.Context(), p.engine.Tag(id), began)
			if a == nil || a.Count != 5 || a.More || a.LastAt.Sub(asked).Abs() > time.Millisecond {
				t.Errorf("%+v", a)
			}
			if m == nil || m.Count != 1 || m.At.Sub(asked).Abs() > time.Millisecond || fmt.Sprint(m.Parts) != "[body]" || m.TraceID != "4bf9" {
				t.Errorf("%+v", m)
			}
			if a, m = p.Asking(t.Context(), "k_0000000000000000", began); a != nil || m != nil {
				t.Errorf("%+v, %+v", a, m)
			}
		}
		two.Observe(stet.Event{Kind: stet.Transition, ID: id, From: stet.Unknown, To: stet.Completed})
		two.figures()
		if a, _ := two.Asking(t.Context(), two.engine.Tag(id), began); a == nil || a.Count != 2 { // the other one has not heard of it
			t.Errorf("after the answer: %+v", a)
		}
	})
}

// cut is a process's way to the store: once it is dead, nothing passes any more.
type cut struct {
	stet.Store
	dead atomic.Bool
}

func (s *cut) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	if s.dead.Load() {
		return stet.Head{}, context.DeadlineExceeded
	}
	return s.Store.Replace(ctx, prev, h, b)
}

// A process that died is gone, and its figures stay for a day.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{})
		one, way := start(t, store, "gw-1:1"), &cut{Store: store}
		two := start(t, way, "gw-2:1")
		two.answers(7, replay)
		if g := one.gateway("gw-2:1"); g.State != "ready" {
			t.Errorf("%+v", g)
		}
		way.dead.Store(true)
		died := time.Now()
		time.Sleep(30 * time.Second)
		if g := one.gateway("gw-2:1"); g.State != "gone" || g.PerSecond != 0 || died.Sub(g.SeenAt) > 6*time.Second {
			t.Errorf("%+v", g)
		}
		three := start(t, store, "gw-3:1") // does not take the record that people may want to see
		if f := three.figures(); len(f.Gateways) != 3 || fmt.Sprint(f.Routes) != "[{POST /pay   map[replay:7] map[] 0 0}]" {
			t.Errorf("%+v", f)
		}
		way.dead.Store(false) // it was only stopped
		if g := one.gateway("gw-2:1"); g.State != "ready" {
			t.Errorf("%+v", g)
		}
		one.end()
		two.end()
		three.end()
		for day := time.Now(); time.Since(day) < 26*time.Hour; time.Sleep(time.Hour) {
			for _, do := range []func(context.Context, string, int) (int, string, error){one.engine.Operator().Sweep, one.engine.Operator().Reap} {
				if _, _, err := do(t.Context(), "", 0); err != nil {
					t.Fatal(err)
				}
			}
			if f := figures.NewReader(one.engine).Figures(t.Context()); time.Since(day) < 23*time.Hour && len(f.Gateways) != 3 {
				t.Fatalf("after %s: %+v", time.Since(day), f.Gateways)
			}
		}
		if f := figures.NewReader(one.engine).Figures(t.Context()); len(f.Gateways) != 0 {
			t.Errorf("a day later: %+v", f.Gateways)
		}
	})
}

// Without a sweeper and a reaper, records of a day ago stay in the store, and are told no longer.
func TestNothingIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, memstore.New(memstore.Config{}), "gw-1:1")
		p.end()
		time.Sleep(23 * time.Hour)
		if f := figures.NewReader(p.engine).Figures(t.Context()); len(f.Gateways) != 1 {
			t.Errorf("%+v", f.Gateways)
		}
		time.Sleep(2 * time.Hour)
		r := figures.NewReader(p.engine)
		if f := r.Figures(t.Context()); len(f.Gateways) != 0 {
			t.Errorf("a day later: %+v", f.Gateways)
		}
		if a, _ := r.Asking(t.Context(), "k_0123456789abcdef", time.Now().Add(-time.Hour)); a == nil || !a.More {
			t.Errorf("nothing counts, and none is said to ask: %+v", a)
		}
	})
}

// A process that ends says so, and the next one goes on with its figures.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{})
		one, two := start(t, store, "gw-1:1"), start(t, store, "gw-2:1")
		one.answers(2, replay)
		two.answers(3, replay)
		two.end()
		if g := one.gateway("gw-2:1"); g.State != "ended" {
			t.Errorf("%+v", g)
		}
		time.Sleep(20 * time.Second) // its lease
		two = start(t, store, "gw-2:2")
		two.answers(5, replay)
		f := one.figures()
		if len(f.Gateways) != 2 || f.Gateways[1].Name != "gw-2:2" || f.Gateways[1].State != "ready" {
			t.Errorf("%+v", f.Gateways)
		}
		if fmt.Sprint(f.Routes) != "[{POST /pay   map[replay:10] map[] 0 0}]" {
			t.Errorf("%+v", f.Routes)
		}
		if got := sum(rates(f.Hour, "replay"), 15*time.Second); got < 5 || got > 10 {
			t.Errorf("%v in an hour", got)
		}
	})
}

// More processes than there are records for publish nothing, and still know of the others.
func TestTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{})
		for i := range 64 {
			start(t, store, fmt.Sprintf("gw-%d:1", i))
		}
		p := start(t, store, "gw-x:1")
		if f := p.figures(); len(f.Gateways) != 65 {
			t.Errorf("it knows of %d", len(f.Gateways))
		}
		if f := figures.NewReader(p.engine).Figures(t.Context()); len(f.Gateways) != 64 {
			t.Errorf("a reader knows of %d", len(f.Gateways))
		}
	})
}

// The store's clock may be far from the host's, and may be set: what was counted keeps its age.
func TestClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var off atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
		off.Store(int64(-3 * time.Hour))
		store := memstore.New(memstore.Config{Clock: now})
		one, two := start(t, store, "gw-1:1"), start(t, store, "gw-2:1")
		calm := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
				one.answers(1, replay)
				two.answers(1, replay)
			}
		}
		check := func(when string) {
			t.Helper()
			f := one.Figures(t.Context())
			hour := rates(f.Hour, "replay")
			if len(hour) != 240 {
				t.Fatalf("%s: %v", when, hour)
			}
			for i, r := range hour {
				if i >= 200 && i < 238 && r < 1.7 || r > 2.5 { // the borders of the last two were moved just now
					t.Fatalf("%s: %v", when, hour)
				}
			}
			for _, g := range f.Gateways {
				if g.State != "ready" || f.At.Sub(g.SeenAt).Abs() > 10*time.Second {
					t.Errorf("%s: %+v at %s", when, g, f.At)
				}
			}
		}
		calm(15 * time.Minute)
		check("three hours behind")
		if f := one.Figures(t.Context()); f.At.Sub(now()).Abs() > time.Second {
			t.Errorf("it is %s, and %s for the board", now(), f.At)
		}
		off.Add(int64(time.Hour))
		calm(time.Minute)
		check("an hour forward")
		off.Add(int64(-30 * time.Minute)) // the store's time stands still
		calm(10 * time.Minute)
		check("set back")
		calm(time.Hour)
		check("and on again")
	})
}

// Names that clients make do not fill memory.
func TestHostileNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{})
		p := start(t, store, "gw-1:1")
		long := strings.Repeat("x", 64<<10)
		id := func(i, n int) stet.ID {
			return stet.ID{Scope: stet.Scope(fmt.Sprintf("%d-%s", i, long[:n])), Key: stet.Key(fmt.Sprint(long[:n], i))}
		}
		for i := range 600 {
			p.answers(1, stet.Event{Result: "unknown", Route: fmt.Sprint(long[:1024], i), ID: id(i, len(long))})
			id := id(i, 1024)
			p.answers(1, stet.Event{Result: "unknown", ID: id})
			p.answers(1, stet.Event{Result: "conflict", Route: "POST /pay", ID: id, Mismatch: strings.Split(strings.Repeat("header:"+long+" ", 20), " "), TraceID: long})
			if i%20 == 0 {
				time.Sleep(5 * time.Second)
			}
		}
		if f := p.figures(); len(f.Routes) > 201 {
			t.Errorf("%d routes", len(f.Routes))
		}
		r, err := p.engine.Get(t.Context(), stet.ID{Scope: stet.OwnScope, Key: "figures_00"})
		if err != nil || len(r.Progress) == 0 || len(r.Progress) > 64<<10 {
			t.Errorf("a record of %d bytes: %v", len(r.Progress), err)
		}
		if a, m := p.Asking(t.Context(), p.engine.Tag(id(599, len(long))), time.Now()); a != nil || m != nil {
			t.Errorf("a key of 64 KiB is remembered: %+v, %+v", a, m)
		}
		if a, m := p.Asking(t.Context(), p.engine.Tag(id(599, 1024)), time.Now().Add(-time.Minute)); a == nil || m == nil || len(m.Parts) > 16 || len(m.Parts[0]) > 64 || len(m.TraceID) > 64 {
			t.Errorf("%+v, %+v", a, m)
		}
	})
}

// Counting from many goroutines loses nothing. It is for the race detector, too.
func TestManyGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, memstore.New(memstore.Config{}), "gw-1:1")
		const each, n = 500, 16
		var all sync.WaitGroup
		for g := range n {
			all.Go(func() {
				for i := range each {
					id := stet.ID{Scope: stet.Scope(fmt.Sprint("s", i%50)), Key: stet.Key(fmt.Sprint("k", i%10))}
					p.answers(1, stet.Event{Result: "unknown", Route: fmt.Sprint("r", i%20), ID: id, Mismatch: []string{"body"}})
					p.Observe(stet.Event{Kind: stet.StoreCall, Op: "get", Took: time.Millisecond})
					p.Observe(stet.Event{Kind: stet.Transition, ID: id, From: stet.Unknown, To: stet.Retryable})
					if i%100 == g {
						p.Figures(t.Context())
						p.Asking(t.Context(), "k_", time.Now())
						p.Calls()
					}
				}
			})
		}
		all.Wait()
		total := 0
		for _, r := range p.figures().Routes {
			total += r.Results["unknown"]
		}
		if total != each*n {
			t.Errorf("%d of %d are counted", total, each*n)
		}
	})
}

// The store's calls are told as they were.
func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := figures.New(figures.Config{})
		near := func(got, want time.Duration) bool { return got > want*3/4 && got < want*4/3 }
		tell := func(n int, took time.Duration, err error) {
			for range n {
				b.Observe(stet.Event{Kind: stet.StoreCall, Took: took, Err: err})
			}
		}
		if c := figures.New(figures.Config{}).Calls(); c != (figures.Calls{}) {
			t.Errorf("%+v", c)
		}
		tell(950, 2*time.Millisecond, nil)
		tell(50, 80*time.Millisecond, nil)
		tell(7, time.Second, context.DeadlineExceeded)
		if c := b.Calls(); !near(c.P50, 2*time.Millisecond) || !near(c.P99, 80*time.Millisecond) || c.Answered != 1000 || c.Failed != 7 {
			t.Errorf("%+v", c)
		}
		for range 7 {
			time.Sleep(time.Minute)
			b.Calls()
		}
		tell(10, time.Microsecond, nil)
		if c := b.Calls(); c.P99 > 16*time.Microsecond || c.Answered != 10 || c.Failed != 0 {
			t.Errorf("seven minutes later: %+v", c)
		}
	})
}
