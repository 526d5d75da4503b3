package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/operate/fleet"
	"github.com/stet-dev/stet/store/memstore"
)

// process is one of several on a store, with a board that runs.
type process struct {
	testing.TB
	*fleet.Board
	engine *stet.Engine
	end    func() // ends it in order
}

func start(t testing.TB, s stet.Store, holder string, conf ...fleet.Config) *process {
	t.Helper()
	c := fleet.Config{Version: "v1"}
	if len(conf) > 0 {
		c = conf[0]
	}
	b := fleet.New(c)
	e, err := stet.New(s, stet.Config{Observe: b.Observe, Holder: holder, StoreTimeout: 10 * time.Second})
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

// figures are told once all have published, and no reader is given what it was given before.
func (p *process) figures() operate.Figures {
	time.Sleep(12 * time.Second)
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

var (
	replay = stet.Event{Result: "replay", Route: "POST /pay", ID: stet.ID{Scope: "acme", Key: "key"}}
	lost   = stet.ID{Scope: "acme", Key: "who knows"}
)

// Each process knows what all have counted since they began, who still asks, and which keys came
// with another request.
func TestTwoProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{})
		one := start(t, store, "gw-1:1")
		began := time.Now()
		time.Sleep(time.Minute)
		two := start(t, store, "gw-2:1")
		one.answers(2, stet.Event{Result: "unknown", Route: "POST /pay", ID: lost})
		one.answers(1, stet.Event{Result: "bypass", Cause: "replay", Route: "PUT /names", Unprotected: true})
		first := time.Now()
		time.Sleep(time.Minute)
		two.answers(3, stet.Event{Result: "unknown", Route: "POST /pay", ID: lost})
		asked := time.Now()
		two.answers(1, stet.Event{Result: "conflict", Route: "POST /pay", ID: lost, Mismatch: []string{"body"}, TraceID: "4bf9"})
		for _, p := range []*process{one, two} {
			f := p.figures()
			if len(f.Gateways) != 2 || f.Gateways[0].Name != "gw-1:1" || f.Gateways[1].Name != "gw-2:1" || f.Gateways[0].Unheard ||
				f.Gateways[1].State != "ready" || f.Gateways[1].Version != "v1" || !f.Since.Equal(began) || !f.Gateways[0].StartedAt.Equal(began) {
				t.Errorf("%+v", f)
			}
			if fmt.Sprint(f.Routes) != "[{POST /pay   map[conflict:1 unknown:5] map[] 0 1} {PUT /names   map[bypass:1] map[replay:1] 1 0}]" ||
				fmt.Sprint(f.Results) != "map[bypass:1 conflict:1 unknown:5]" {
				t.Errorf("%+v, %v", f.Routes, f.Results)
			}
			tag := p.engine.Tag(lost)
			if a, _ := p.Asking(t.Context(), tag, first.Add(30*time.Second)); a == nil || a.Count != 3 || a.More {
				t.Errorf("since half a minute later: %+v", a)
			}
			if a, m := p.Asking(t.Context(), tag, time.Time{}); a != nil || m == nil {
				t.Errorf("of a record that is not unknown: %+v, %+v", a, m)
			}
			a, m := p.Asking(t.Context(), tag, began)
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
		two.Observe(stet.Event{Kind: stet.Transition, ID: lost, From: stet.Unknown, To: stet.Completed})
		two.figures()
		if a, _ := two.Asking(t.Context(), two.engine.Tag(lost), began); a == nil || a.Count != 2 { // the other one has not heard of it
			t.Errorf("after the answer: %+v", a)
		}
		for range 120 {
			two.answers(4, replay)
			time.Sleep(time.Second)
		}
		if g := one.Figures(t.Context()).Gateways[1]; g.PerSecond < 3.5 || g.PerSecond > 4.5 {
			t.Errorf("%+v", g)
		}
	})
}

// cut is a process's way to the store: once it is dead, nothing passes any more.
type cut struct {
	stet.Store
	dead atomic.Bool
}

var errCut = errors.New("the line is cut")

func (s *cut) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	if s.dead.Load() {
		return stet.Head{}, errCut
	}
	return s.Store.Replace(ctx, prev, h, b)
}

func (s *cut) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	if s.dead.Load() {
		return stet.Record{}, errCut
	}
	return s.Store.Get(ctx, id)
}

// A process that died is gone, and its figures are told for a day. One that was only away goes on
// in another record, if its own has been taken.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{})
		began, one, way := time.Now(), start(t, store, "gw-1:1"), &cut{Store: store}
		two := start(t, way, "gw-2:1")
		two.answers(7, replay)
		two.answers(1, stet.Event{Result: "unknown", Route: "POST /pay", ID: lost})
		if g := one.gateway("gw-2:1"); g.State != "ready" {
			t.Errorf("%+v", g)
		}
		if f := two.figures(); len(f.Gateways) != 2 {
			t.Errorf("%+v", f)
		}
		way.dead.Store(true)
		died := time.Now()
		time.Sleep(26 * time.Second)
		if g := one.gateway("gw-2:1"); g.State != "gone" || g.PerSecond != 0 || died.Sub(g.SeenAt).Abs() > 12*time.Second {
			t.Errorf("%+v", g)
		}
		time.Sleep(20 * time.Second)
		own := two.gateway("gw-2:1")
		if all := two.figures(); !own.Unheard || time.Since(own.SeenAt) > 13*time.Second || !own.StartedAt.Equal(began) || len(all.Gateways) != 2 {
			t.Errorf("it does not know that it is cut off: %+v among %+v", own, all.Gateways)
		}
		if a, _ := one.Asking(t.Context(), one.engine.Tag(lost), died.Add(-time.Minute)); a == nil || a.Count != 1 || a.More {
			t.Errorf("%+v", a)
		}
		three := start(t, store, "gw-3:1") // takes its record
		f := three.figures()
		if len(f.Gateways) != 2 || f.Gateways[1].Name != "gw-3:1" || len(f.Routes) != 0 {
			t.Errorf("%+v", f)
		}
		if a, _ := one.Asking(t.Context(), one.engine.Tag(lost), died.Add(-time.Minute)); a == nil || !a.More {
			t.Errorf("what it knew is lost, and not said to be: %+v", a)
		}
		way.dead.Store(false)
		time.Sleep(time.Minute) // it finds that out, and takes another one a heartbeat later
		if g := one.gateway("gw-2:1"); g.State != "ready" || len(one.Figures(t.Context()).Gateways) != 3 {
			t.Errorf("%+v", g)
		}
		three.end()
		if g := one.gateway("gw-3:1"); g.State != "ended" {
			t.Errorf("%+v", g)
		}
		one.end()
		two.end()
		for day := time.Now(); time.Since(day) < 26*time.Hour; time.Sleep(time.Hour) {
			for _, do := range []func(context.Context, string, int) (int, string, error){one.engine.Operator().Sweep, one.engine.Operator().Reap} {
				if _, _, err := do(t.Context(), "", 0); err != nil {
					t.Fatal(err)
				}
			}
			if f := fleet.NewReader(one.engine).Figures(t.Context()); time.Since(day) < 23*time.Hour && len(f.Gateways) != 3 {
				t.Fatalf("after %s: %+v", time.Since(day), f.Gateways)
			}
		}
		r := fleet.NewReader(one.engine)
		if f := r.Figures(t.Context()); len(f.Gateways) != 0 {
			t.Errorf("a day later: %+v", f.Gateways)
		}
		for range 12 { // most of a year: the slots have no gap
			time.Sleep(25 * 24 * time.Hour)
			if _, _, err := one.engine.Operator().Reap(t.Context(), "", 0); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := store.Get(t.Context(), stet.ID{Scope: stet.OwnScope, Key: "fleet_00"}); err != nil {
			t.Errorf("most of a year later: %v", err)
		}
		if a, _ := r.Asking(t.Context(), "k_0123456789abcdef", time.Now().Add(-time.Hour)); a == nil || !a.More {
			t.Errorf("nothing counts, and none is said to ask: %+v", a)
		}
	})
}

// More processes than there are records for publish nothing, say so, and still know of the others.
func TestTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{})
		for i := range 64 {
			start(t, store, fmt.Sprintf("gw-%d:1", i))
		}
		p := start(t, store, "gw-x:1")
		if f := p.figures(); len(f.Gateways) != 65 || !p.gateway("this process").Unheard {
			t.Errorf("it knows of %d", len(f.Gateways))
		}
		if f := fleet.NewReader(p.engine).Figures(t.Context()); len(f.Gateways) != 64 {
			t.Errorf("a reader knows of %d", len(f.Gateways))
		}
	})
}

// The host's clock may be far from the store's: instants are the store's.
func TestClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off := 3 * time.Hour
		store := memstore.New(memstore.Config{Clock: func() time.Time { return time.Now().Add(-off) }})
		one, two := start(t, store, "gw-1:1"), start(t, store, "gw-2:1")
		time.Sleep(time.Minute)
		one.answers(1, stet.Event{Result: "unknown", ID: lost})
		asked := time.Now().Add(-off)
		for _, p := range []*process{one, two} {
			f := p.figures()
			for _, g := range f.Gateways {
				if g.State != "ready" || f.At.Sub(g.SeenAt) > 11*time.Second || f.At.Sub(g.StartedAt) > 2*time.Minute {
					t.Errorf("%+v at %s", g, f.At)
				}
			}
			if a, _ := p.Asking(t.Context(), p.engine.Tag(lost), asked.Add(-time.Minute)); a == nil || a.LastAt.Sub(asked).Abs() > time.Second {
				t.Errorf("%+v, asked at %s", a, asked)
			}
		}
	})
}

// Names that clients make do not fill memory, and what is left out is said to be.
func TestHostileNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, memstore.New(memstore.Config{}), "gw-1:1")
		long := strings.Repeat("x", 64<<10)
		id := func(i, n int) stet.ID {
			return stet.ID{Scope: stet.Scope(fmt.Sprintf("%d-%s", i, long[:n])), Key: stet.Key(fmt.Sprint(long[:n], i))}
		}
		for i := range 300 {
			p.answers(1, stet.Event{Result: "unknown", Route: fmt.Sprint(long[:1024], i), ID: id(i, len(long))})
			id := id(i, 1024)
			p.answers(1, stet.Event{Result: "unknown", ID: id})
			p.answers(1, stet.Event{Result: "conflict", Route: "POST /pay", ID: id, Mismatch: strings.Split(strings.Repeat("header:"+long+" ", 20), " "), TraceID: long})
		}
		f := p.figures()
		if len(f.Routes) > 201 || f.Results["unknown"] != 600 {
			t.Errorf("%d routes, %v", len(f.Routes), f.Results)
		}
		r, err := p.engine.Get(t.Context(), stet.ID{Scope: stet.OwnScope, Key: "fleet_00"})
		if err != nil || len(r.Progress) == 0 || len(r.Progress) > 64<<10 {
			t.Errorf("a record of %d bytes: %v", len(r.Progress), err)
		}
		if f := fleet.NewReader(p.engine).Figures(t.Context()); !f.Gateways[0].Partial {
			t.Errorf("%+v", f.Gateways)
		}
		if a, m := p.Asking(t.Context(), p.engine.Tag(id(299, len(long))), time.Now()); a != nil || m != nil {
			t.Errorf("a key of 64 KiB is remembered: %+v, %+v", a, m)
		}
		a, m := p.Asking(t.Context(), p.engine.Tag(id(299, 1024)), time.Now().Add(-time.Minute))
		if a == nil || !a.More || m == nil || len(m.Parts) > 16 || len(m.Parts[0]) > 64 || len(m.TraceID) > 64 {
			t.Errorf("%+v, %+v", a, m)
		}
	})
}

// Of keys beyond those that are remembered the first is forgotten, and what was unknown before that
// has at least so many askers.
func TestTooManyAreAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, memstore.New(memstore.Config{}), "gw-1:1")
		id := func(i int) stet.ID { return stet.ID{Scope: "acme", Key: stet.Key(fmt.Sprint("key-", i))} }
		began := time.Now()
		for i := range 100 {
			p.answers(2, stet.Event{Result: "unknown", ID: id(i)})
			time.Sleep(time.Second)
		}
		is := func(i int, since time.Time, count int, more bool) {
			t.Helper()
			a, _ := p.Asking(t.Context(), p.engine.Tag(id(i)), since)
			if a == nil {
				a = &operate.Asking{}
			}
			if a.Count != count || a.More != more {
				t.Errorf("key %d: %+v", i, a)
			}
		}
		p.figures()
		is(0, began, 2, false)
		p.answers(1, stet.Event{Result: "unknown", ID: id(100)})
		p.figures()
		is(0, began, 0, true)
		is(1, began, 2, true)
		is(100, time.Now(), 0, false)
	})
}

// A record that cannot be read belongs to a process of which little is known; the others are told.
func TestDamagedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{})
		one := start(t, store, "gw-1:1")
		two := start(t, store, "gw-2:1")
		two.answers(1, replay)
		time.Sleep(12 * time.Second)
		for _, doc := range []string{"", "{", `{"routes":[{"told":{"new":-1}}]}x`, strings.Repeat(" ", 64<<10) + "{}"} {
			r, err := store.Get(t.Context(), stet.ID{Scope: stet.OwnScope, Key: "fleet_00"})
			if r.DueIn = time.Minute; err == nil {
				_, err = store.Replace(t.Context(), r.Version, r.Head, &stet.Body{Progress: []byte(doc)})
			}
			if err != nil {
				t.Fatal(err)
			}
			f := fleet.NewReader(one.engine).Figures(t.Context())
			if len(f.Gateways) != 2 || f.Gateways[0].State != "ready" || f.Gateways[0].Partial != (doc != "") || f.Results["replay"] != 1 {
				t.Errorf("%.9q: %+v, %v", doc, f.Gateways, f.Results)
			}
		}
	})
}

// One process of all measures the store, and all know what it has found; the next one goes on.
func TestOneMeasures(t *testing.T) { // Y11
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{})
		var ways [3]*cut
		var mu sync.Mutex
		var found [3]map[string]float64
		var measured [3]atomic.Int64
		var all [3]*process
		for i := range all {
			ways[i] = &cut{Store: store}
			all[i] = start(t, ways[i], fmt.Sprintf("gw-%d:1", i), fleet.Config{
				Measures: []fleet.Measure{func(context.Context, *stet.Engine) map[string]float64 {
					measured[i].Add(1)
					return map[string]float64{"keys": float64(100 * i)}
				}},
				Measured: func(values map[string]float64) { mu.Lock(); defer mu.Unlock(); found[i] = values }})
			time.Sleep(15 * time.Second)
		}
		check := func(when string, by int, want string) {
			t.Helper()
			time.Sleep(25 * time.Second)
			synctest.Wait()
			var before [3]int64
			for i := range before {
				before[i] = measured[i].Load()
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			for i := range before {
				if n := measured[i].Load() - before[i]; (n > 0) != (i == by) || n > 7 {
					t.Errorf("%s: process %d has measured %d times", when, i, n)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if got := fmt.Sprint(found); got != want {
				t.Errorf("%s: %s", when, got)
			}
		}
		check("at first", 0, "[map[keys:0] map[keys:0] map[keys:0]]")
		ways[0].dead.Store(true)
		time.Sleep(time.Minute)
		check("one is cut off", 1, "[map[] map[keys:100] map[keys:100]]")
		all[1].end()
		time.Sleep(time.Minute)
		check("another has ended", 2, "[map[] map[keys:100] map[keys:200]]")
	})
}

// A process that cannot write its record does not take what the record says for another's.
func TestMeasuresWithoutWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &readOnly{Store: memstore.New(memstore.Config{})}
		var n, shown atomic.Int64
		p := start(t, store, "gw-1:1", fleet.Config{Measures: []fleet.Measure{func(context.Context, *stet.Engine) map[string]float64 {
			return map[string]float64{"n": float64(n.Add(1))}
		}}, Measured: func(values map[string]float64) {
			if now := int64(values["n"]); now != shown.Swap(now)+1 {
				t.Errorf("what is shown is not what was measured just now: %d", now)
			}
		}})
		for range 5 { // whether it looks at its record while that holds is chance
			before := n.Load()
			time.Sleep(30 * time.Second)
			store.on.Store(true)
			time.Sleep(time.Minute)
			if !p.gateway("gw-1:1").Unheard || n.Load() < before+7 {
				t.Errorf("it has measured %d times", n.Load()-before)
			}
			store.on.Store(false)
		}
	})
}

type readOnly struct {
	stet.Store
	on atomic.Bool
}

func (s *readOnly) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	if s.on.Load() {
		return stet.Head{}, errCut
	}
	return s.Store.Replace(ctx, prev, h, b)
}

// A measure that takes long delays no other, and is made for a twentieth of the time.
func TestASlowMeasure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var found map[string]float64
		var quick, slow atomic.Int64
		start(t, memstore.New(memstore.Config{}), "gw-1:1", fleet.Config{Measures: []fleet.Measure{
			func(context.Context, *stet.Engine) map[string]float64 {
				return map[string]float64{"quick": float64(quick.Add(1))}
			},
			func(context.Context, *stet.Engine) map[string]float64 {
				time.Sleep(30 * time.Second)
				return map[string]float64{"slow": float64(slow.Add(1))}
			}}, Measured: func(values map[string]float64) { mu.Lock(); defer mu.Unlock(); found = values }})
		for minute := range 25 {
			time.Sleep(time.Minute)
			mu.Lock()
			if n := found["quick"]; n < float64(5*(minute+1)) || found["slow"] == 0 {
				t.Errorf("after %d minutes: %v", minute+1, found)
			}
			mu.Unlock()
		}
		if n := slow.Load(); n < 2 || n > 3 {
			t.Errorf("the slow one is made %d times in 25 minutes", n)
		}
	})
}

// A page waits for the store once, and after that has what was read last; a process that cannot
// read knows itself.
func TestSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{Store: memstore.New(memstore.Config{})}
		p := start(t, store, "gw-1:1")
		p.answers(3, replay)
		store.on.Store(true)
		look := func(within time.Duration) operate.Figures {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			began := time.Now()
			f := p.Figures(ctx)
			if took := time.Since(began); took > within {
				t.Errorf("it took %s", took)
			}
			return f
		}
		if f := look(time.Second / 3); len(f.Gateways) != 1 || f.Results["replay"] != 3 {
			t.Errorf("%+v", f)
		}
		time.Sleep(time.Minute)
		for range 3 {
			if f := look(time.Second / 3); f.Results["replay"] != 3 {
				t.Errorf("%+v", f)
			}
		}
		store.on.Store(false)
		time.Sleep(time.Minute)
	})
}

type slow struct {
	stet.Store
	on atomic.Bool
}

func (s *slow) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	if s.on.Load() {
		time.Sleep(5 * time.Second)
	}
	return s.Store.Get(ctx, id)
}

// A heartbeat costs one write in 10 s, and a reading as many reads as there are processes, and three.
func TestWhatItCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counting{Store: memstore.New(memstore.Config{})}
		var all []*process
		for i := range 10 {
			all = append(all, start(t, store, fmt.Sprintf("gw-%d:1", i)))
		}
		time.Sleep(time.Minute)
		store.reads.Store(0)
		store.writes.Store(0)
		time.Sleep(time.Hour)
		if n := store.writes.Load(); n > 10*400 || n < 10*320 {
			t.Errorf("%d writes in an hour", n)
		}
		if n := store.reads.Load(); n > 0 {
			t.Errorf("%d reads without a reader", n)
		}
		for range 5 {
			all[0].Figures(t.Context())
			synctest.Wait()
		}
		if n := store.reads.Load(); n != 13 {
			t.Errorf("%d reads for five pages", n)
		}
	})
}

type counting struct {
	stet.Store
	reads, writes atomic.Int64
}

func (s *counting) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	s.reads.Add(1)
	return s.Store.Get(ctx, id)
}

func (s *counting) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	s.writes.Add(1)
	return s.Store.Replace(ctx, prev, h, b)
}

// Operators find every member of the figures' documents in docs/operate.md.
func TestEveryFigureIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, doc := range []reflect.Type{reflect.TypeFor[operate.Gateway](), reflect.TypeFor[operate.RouteFigures](), reflect.TypeFor[operate.Asking](),
		reflect.TypeFor[operate.Mismatch]()} {
		for f := range doc.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if n++; !strings.Contains(string(text), "`"+name+"`") {
				t.Errorf("docs/operate.md does not say what `%s` of a %s is", name, doc.Name())
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d members", n)
	}
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
					p.Observe(stet.Event{Kind: stet.Transition, ID: id, From: stet.Unknown, To: stet.Retryable})
					if i%100 == g {
						p.Figures(t.Context())
						p.Asking(t.Context(), "k_", time.Now())
					}
				}
			})
		}
		all.Wait()
		if got := p.figures().Results["unknown"]; got != each*n {
			t.Errorf("%d of %d are counted", got, each*n)
		}
	})
}

// An event of a route that is known costs no memory.
func TestObserveAllocatesNothing(t *testing.T) {
	board := fleet.New(fleet.Config{})
	answer := stet.Event{Kind: stet.Answer, Route: "POST /v1/charges", Result: "new", ID: stet.ID{Scope: "acme", Key: "k"}}
	unknown := answer
	unknown.Result = "unknown"
	for _, e := range []stet.Event{answer, unknown, {Kind: stet.StoreCall, Op: "create"}} {
		board.Observe(e)
		if n := testing.AllocsPerRun(1000, func() { board.Observe(e) }); n > 0 {
			t.Errorf("%d %s: %v allocations", e.Kind, e.Result, n)
		}
	}
}

// BenchmarkObserve measures an event, from all processors at once.
func BenchmarkObserve(b *testing.B) {
	board := fleet.New(fleet.Config{})
	e := stet.Event{Kind: stet.Answer, Route: "POST /v1/charges", Result: "replay", ID: stet.ID{Scope: "acme", Key: "k"}}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			board.Observe(e)
		}
	})
}

// A record that was removed, as with a store that was emptied, is made anew.
func TestRemovedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{})
		p := start(t, store, "gw-1:1")
		p.answers(1, replay)
		id := stet.ID{Scope: stet.OwnScope, Key: "fleet_00"}
		r, err := store.Get(t.Context(), id)
		if err == nil {
			err = store.Delete(t.Context(), id, r.Version)
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if f := fleet.NewReader(p.engine).Figures(t.Context()); len(f.Gateways) != 1 || f.Results["replay"] != 1 {
			t.Errorf("%+v", f)
		}
		if g := p.gateway("gw-1:1"); g.Unheard {
			t.Errorf("%+v", g)
		}
	})
}
