package figures_test

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/admin/figures"
	"github.com/stet-dev/stet/operate"
	"github.com/stet-dev/stet/store/memstore"
)

// A process whose record was taken over while it lived leaves to the other what it had published,
// and keeps what it has counted since: nothing is counted twice.
func TestTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, err := os.Hostname()
		if err != nil {
			t.Fatal(err)
		}
		store := memstore.New(memstore.Config{})
		way := &cut{Store: store}
		one := start(t, way, host+":1")
		id := stet.ID{Scope: "acme", Key: "k"}
		since := time.Now()
		one.answers(7, replay)
		one.answers(2, stet.Event{Result: "unknown", Route: "POST /pay", ID: id})
		one.answers(1, stet.Event{Result: "bypass", Cause: "replay", Route: "trial"})
		one.answers(1, stet.Event{Result: "conflict", Route: "POST /pay", ID: id, Mismatch: []string{"body"}})
		one.figures()
		way.dead.Store(true)
		one.answers(3, replay)
		one.answers(1, stet.Event{Result: "unknown", Route: "POST /pay", ID: stet.ID{Scope: "acme", Key: "untold"}})
		time.Sleep(30 * time.Second)
		two := start(t, store, host+":2")
		two.answers(5, replay)
		way.dead.Store(false)
		time.Sleep(30 * time.Second)
		for _, p := range []*process{one, two} {
			f := p.figures()
			if len(f.Gateways) != 2 || f.Gateways[0].State != "ready" || f.Gateways[1].State != "ready" {
				t.Errorf("%+v", f.Gateways)
			}
			if fmt.Sprint(f.Routes) != "[{POST /pay   map[conflict:1 replay:15 unknown:3] map[] 0 1} {trial   map[bypass:1] map[replay:1] 0 0}]" {
				t.Errorf("%+v", f.Routes)
			}
			if n := operate.Sum(f.Hour, time.Time{})["replay"]; n != 15 {
				t.Errorf("%d in an hour", n)
			}
			a, m := p.Asking(t.Context(), p.engine.Tag(id), since)
			if a == nil || a.Count != 2 || m == nil || m.Count != 1 {
				t.Errorf("%+v, %+v", a, m)
			}
			a, _ = p.Asking(t.Context(), p.engine.Tag(stet.ID{Scope: "acme", Key: "untold"}), since)
			if a == nil || !a.More {
				t.Errorf("what was not told is said not to be: %+v", a)
			}
		}
	})
}

// A restart loses neither who asks about an unknown key nor the last mismatch, and what is counted
// afterwards is added. A record that ends is asked about no longer.
func TestAskingOutlastsARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{})
		id := stet.ID{Scope: "acme", Key: "k"}
		since := time.Now()
		ask := func(p *process, n int) {
			p.answers(n, stet.Event{Result: "unknown", Route: "POST /pay", ID: id})
			p.answers(n, stet.Event{Result: "conflict", Route: "POST /pay", ID: id, Mismatch: []string{"body"}, TraceID: "4bf9"})
		}
		p := start(t, store, "gw-1:1")
		ask(p, 3)
		told := func(asked, mismatches int) {
			t.Helper()
			p.figures()
			a, m := p.Asking(t.Context(), p.engine.Tag(id), since)
			if a == nil || a.Count != asked || a.More || m == nil || m.Count != mismatches || m.Parts[0] != "body" || m.TraceID != "4bf9" {
				t.Errorf("%+v, %+v", a, m)
			}
		}
		again := func(holder string) {
			p.end()
			time.Sleep(20 * time.Second) // its lease
			p = start(t, store, holder)
		}
		again("gw-1:2")
		told(3, 3)
		ask(p, 1)
		told(4, 4)
		again("gw-1:3")
		told(4, 4)
		p.Observe(stet.Event{Kind: stet.Transition, ID: id, From: stet.Unknown, To: stet.Completed})
		p.figures()
		if a, _ := p.Asking(t.Context(), p.engine.Tag(id), since); a != nil {
			t.Errorf("after the answer: %+v", a)
		}
	})
}

// Where more keys are asked about than are remembered, each answer says that it is a lower bound:
// no operator reads that no client asks. It says so of the time since then alone, also after a
// restart.
func TestTooManyAreAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{})
		p, since := start(t, store, "gw-1:1"), time.Now()
		id := func(i int) stet.ID { return stet.ID{Scope: "acme", Key: stet.Key(fmt.Sprint("k", i))} }
		told := func(i int, since time.Time) *operate.Asking {
			a, _ := p.Asking(t.Context(), p.engine.Tag(id(i)), since)
			return a
		}
		for i := range 250 {
			p.answers(1, stet.Event{Result: "unknown", ID: id(i)})
			time.Sleep(time.Millisecond)
		}
		p.figures()
		if a := told(0, since); a == nil || a.Count != 1 || a.More {
			t.Errorf("the first of 250: %+v", a)
		}
		if a := told(300, since); a != nil {
			t.Errorf("one that nobody asks about: %+v", a)
		}
		p.answers(2, stet.Event{Result: "unknown", ID: id(250)})
		after := time.Now().Add(time.Minute)
		for range 2 {
			p.figures()
			if a := told(0, since); a == nil || a.Count != 0 || !a.More || !a.LastAt.IsZero() {
				t.Errorf("a forgotten one: %+v", a)
			}
			for _, i := range []int{50, 250} {
				if a := told(i, since); a == nil || a.Count == 0 || !a.More {
					t.Errorf("%d: %+v", i, a)
				}
			}
			if a := told(0, after); a != nil {
				t.Errorf("one that is unknown since then: %+v", a)
			}
			p.end()
			time.Sleep(20 * time.Second) // its lease
			p = start(t, store, "gw-1:2")
		}
	})
}

// What a route in shadow mode would have told its requests is told beside what it did tell them.
func TestShadows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Config{})
		p := start(t, store, "gw-1:1")
		for range 2 {
			for _, would := range []string{"new", "replay", "replay", "missing_key", "unseen"} {
				p.answers(1, stet.Event{Result: "bypass", Cause: would, Route: "trial"})
			}
			p.answers(1, stet.Event{Result: "replay", Cause: "x", Route: "pay"})
			p.figures()
			p.end()
			time.Sleep(20 * time.Second) // its lease
			p = start(t, store, "gw-1:2")
		}
		f := p.figures()
		if fmt.Sprint(f.Routes) != "[{pay   map[replay:2] map[] 0 0} {trial   map[bypass:10] map[missing_key:2 new:2 replay:4 unseen:2] 0 0}]" {
			t.Errorf("%+v", f.Routes)
		}
		if n := operate.Sum(f.Hour, time.Time{}).Requests(); n != 12 {
			t.Errorf("%d in an hour", n)
		}
	})
}

// gets counts the calls that read records of processes.
type gets struct {
	stet.Store
	n atomic.Int64
}

func (s *gets) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	if id.Scope == stet.OwnScope {
		s.n.Add(1)
	}
	return s.Store.Get(ctx, id)
}

// A page that is open all the time reads the records that there are, and a few places beyond.
func TestReadsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &gets{Store: memstore.New(memstore.Config{})}
		for i := range 5 {
			start(t, store, fmt.Sprintf("gw-%d:1", i))
		}
		r := figures.NewReader(start(t, store, "gw-x:1").engine)
		r.Figures(t.Context())
		store.n.Store(0)
		looks := 20
		for range looks {
			time.Sleep(2 * time.Second)
			if f := r.Figures(t.Context()); len(f.Gateways) != 6 {
				t.Fatalf("%+v", f.Gateways)
			}
		}
		if n := int(store.n.Load()); n > looks*9 {
			t.Errorf("%d reads in %d looks", n, looks)
		}
		for i := range 30 { // those that start are seen soon, and one beyond a gap within a minute
			start(t, store, fmt.Sprintf("gw-y%d:1", i))
		}
		time.Sleep(time.Minute)
		r.Figures(t.Context())
		time.Sleep(2 * time.Second)
		if f := r.Figures(t.Context()); len(f.Gateways) != 36 {
			t.Errorf("%d of 36", len(f.Gateways))
		}
	})
}

// plant writes a record as a process of another kind might.
func plant(t *testing.T, e *stet.Engine, doc any) {
	t.Helper()
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	d, err := e.Begin(t.Context(), stet.Request{ID: stet.ID{Scope: stet.OwnScope, Key: "figures_07"}, Policy: &stet.Policy{Lease: time.Hour}})
	if err == nil {
		err = d.Claim.Step(t.Context(), stet.Step{Progress: packed.Bytes()})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A damaged or hostile record makes a reader hold no more than one of a board does.
func TestHostileRecords(t *testing.T) {
	type object = map[string]any
	long := strings.Repeat("x", 300)
	many := func(n int, row func(i int) object) (all []object) {
		for i := range n {
			all = append(all, row(i))
		}
		return all
	}
	synctest.Test(t, func(t *testing.T) {
		hour := time.Now().Unix() / 3600
		row := func(i int) object {
			return object{"name": fmt.Sprint(i, long), "last": hour, "n": object{"new": make([]uint64, 40), "replay": []int{1}, "x": []int{1}}}
		}
		key := func(i int) object {
			return object{"id": fmt.Sprint("k", i, "-", long), "count": 1, "last": time.Now(), "parts": strings.Split(strings.Repeat(long[:100]+" ", 20), " "), "trace": long}
		}
		p := start(t, memstore.New(memstore.Config{}), "gw-1:1")
		plant(t, p.engine, object{"version": long, "state": "<script>", "routes": many(300, row), "shadows": many(300, row), "scopes": many(300, row), // of an earlier version
			"mismatches": many(110, key)})
		f := p.figures()
		g := f.Gateways[0] // of the same name, and it does not say since when it is there
		if len(f.Gateways) != 2 || len(g.Version) > 256 || g.State != "ready" || g.Partial {
			t.Errorf("%+v", g)
		}
		if len(f.Routes) != 201 || len(f.Routes[5].Route) > 256 {
			t.Errorf("%d routes", len(f.Routes))
		}
		if _, m := p.Asking(t.Context(), fmt.Sprint("k105-", long)[:64], time.Time{}); m != nil {
			t.Errorf("the 106th of 100: %+v", m)
		}
		_, m := p.Asking(t.Context(), fmt.Sprint("k3-", long)[:64], time.Time{})
		if m == nil || len(m.Parts) != 16 || len(m.Parts[0]) != 64 || len(m.TraceID) != 64 {
			t.Errorf("%+v", m)
		}
	})
	synctest.Test(t, func(t *testing.T) { // one that cannot be read is told, and so what is not known
		p := start(t, memstore.New(memstore.Config{}), "gw-1:1")
		plant(t, p.engine, object{"version": strings.Repeat("x", 1<<20)})
		if f := p.figures(); len(f.Gateways) != 2 || !f.Gateways[0].Partial || f.Gateways[1].Partial {
			t.Errorf("%+v", f.Gateways)
		}
		if a, _ := p.Asking(t.Context(), "k_", time.Now().Add(-time.Hour)); a == nil || !a.More {
			t.Errorf("%+v", a)
		}
	})
}
