package flow_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/internal/execution"
	"github.com/stet-dev/stet/store/memstore"
)

var errDead = errors.New("the process is gone")

// world is what survives a crash: the records, and the provider with its ledger.
type world struct {
	records stet.Store
	honours bool // one effect per key

	mu      sync.Mutex
	effects map[string]int // per kind of effect
	ids     map[string]string
}

func newWorld(honours bool) *world {
	return &world{records: memstore.New(memstore.Config{}), honours: honours, effects: map[string]int{}, ids: map[string]string{}}
}

// process dies at its n-th boundary: before or after a call of the store or the provider. Nothing
// it does afterwards has effects.
type process struct {
	*world
	stet.Store
	dieAt int

	step int
	dead bool
}

func (p *process) die() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step++
	p.dead = p.dead || p.step == p.dieAt
	if p.dead {
		return errDead
	}
	return nil
}

func crossing[T any](p *process, do func() (T, error)) (T, error) {
	var none T
	if err := p.die(); err != nil {
		return none, err
	}
	got, err := do()
	if dead := p.die(); dead != nil {
		return none, dead
	}
	return got, err
}

func (p *process) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	return crossing(p, func() (stet.Record, error) { return p.Store.Create(ctx, r) })
}

func (p *process) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	return crossing(p, func() (stet.Record, error) { return p.Store.Get(ctx, id) })
}

func (p *process) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	return crossing(p, func() (stet.Head, error) { return p.Store.Replace(ctx, prev, h, b) })
}

func (p *process) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	_, err := crossing(p, func() (int, error) { return 0, p.Store.Delete(ctx, id, prev) })
	return err
}

// effect is the provider's side.
func (p *process) effect(kind, key string) (string, error) {
	return crossing(p, func() (string, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if id, ok := p.ids[key]; ok && p.honours {
			return id, nil
		}
		p.effects[kind]++
		p.ids[key] = fmt.Sprint(kind, "_", p.effects[kind])
		return p.ids[key], nil
	})
}

type payment struct {
	Amount        int
	Charge, Label string
}

type mode struct {
	name            string
	honours, lookup bool
}

var modes = []mode{{"honours keys", true, false}, {"can be asked", false, true}, {"neither", false, false}}

var policy = stet.Policy{Rules: stet.Rules{OnLapse: stet.LapseResume}}

func ask() stet.Request { return stet.Request{ID: stet.ID{Scope: "shop", Key: "k"}} }

// shop is the program: a flow that charges a card and buys a label.
func (p *process) shop(t *testing.T, m mode) (*flow.Flow[payment], *stet.Engine) {
	t.Helper()
	e, err := stet.New(p, stet.Config{Policy: policy})
	if err != nil {
		t.Fatal(err)
	}
	buy := func(kind string, into func(*payment) *string) flow.Phase[payment] {
		ph := flow.Foreign(kind, func(ctx context.Context, call *flow.Call, s *payment) error {
			return call.Do(ctx, func(_ context.Context, key string) (err error) {
				*into(s), err = p.effect(kind, key)
				call.Learned(*into(s))
				return err
			})
		})
		if m.honours {
			ph = ph.HonoursKey()
		}
		if m.lookup {
			ph = ph.Lookup(func(_ context.Context, key string, s *payment) (bool, error) {
				p.mu.Lock()
				defer p.mu.Unlock()
				id, ok := p.ids[key]
				*into(s) = id
				return ok, nil
			})
		}
		return ph
	}
	f, err := flow.New(flow.Config[payment]{Name: "pay", Engine: e, Answer: func(s *payment) stet.Response {
		return stet.Response{Status: 201, Body: []byte(s.Charge + " " + s.Label)}
	}}, buy("charge", func(s *payment) *string { return &s.Charge }), buy("label", func(s *payment) *string { return &s.Label }))
	if err != nil {
		t.Fatal(err)
	}
	return f, e
}

// drained waits for what the engine works on by itself: in a bubble that takes no time.
func drained(t *testing.T, e *stet.Engine) {
	t.Helper()
	if err := e.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// finally brings the world to an answer, with a program that does not crash, and people who look
// into the ledger where they must.
func (w *world) finally(t *testing.T, m mode, byCompleter bool) string {
	t.Helper()
	p := &process{world: w, Store: w.records}
	f, e := p.shop(t, m)
	for range 8 {
		time.Sleep(time.Minute + flow.MaxBackoff)
		if byCompleter {
			if _, err := (flow.Completer{Engine: e, Flows: []flow.Resumer{f}}).Round(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		answer, err := f.Do(t.Context(), ask(), payment{Amount: 7})
		if err == nil {
			return string(answer.Body)
		}
		r, gerr := e.Get(t.Context(), ask().ID)
		if gerr != nil {
			t.Fatal(gerr, err)
		}
		if r.State != stet.Unknown {
			continue
		}
		var made *stet.Response
		w.mu.Lock()
		if _, ok := w.ids[r.DownstreamKey]; ok {
			made = &stet.Response{Status: 201, Body: []byte("found")}
		}
		w.mu.Unlock()
		if _, err := e.Operator().Resolve(t.Context(), ask().ID, execution.Of(t.Context(), e, ask().ID), stet.Resolution{Response: made}, stet.Note{Who: "ops", Why: "ledger"}); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("no answer")
	return ""
}

func (w *world) check(t *testing.T, m mode, answer string) {
	t.Helper()
	want := "charge_1 label_1"
	charges, labels := w.effects["charge"], w.effects["label"]
	if !m.honours && !m.lookup && answer == "found" { // people ended it where it stood
		want, labels = "found", 1
	}
	if answer != want || charges != 1 || labels != 1 || w.effects["label"] > 1 {
		t.Errorf("%s: answer %q, effects %v", m.name, answer, w.effects)
	}
}

func TestCrashAtEveryBoundary(t *testing.T) { // I1, W4, CR-05, CR-14
	for _, m := range modes {
		for _, byCompleter := range []bool{false, true} {
			points := 0
			for at, died := 1, true; died; at++ {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(m.honours)
					p := &process{world: w, Store: w.records, dieAt: at}
					f, e := p.shop(t, m)
					_, err := f.Do(t.Context(), ask(), payment{Amount: 7})
					drained(t, e)
					if died = p.dead; died == (err == nil) {
						t.Fatalf("point %d: died %v, %v", at, died, err)
					}
					w.check(t, m, w.finally(t, m, byCompleter))
				})
				points = at
			}
			if points < 12 {
				t.Errorf("only %d points", points)
			}
		}
	}
}

func TestCrashesAtRandom(t *testing.T) { // several in one life, also of runs that resume
	for seed := range int64(60) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewSource(seed))
			m := modes[rnd.Intn(2)]
			w := newWorld(m.honours)
			for range 1 + rnd.Intn(6) {
				p := &process{world: w, Store: w.records, dieAt: 1 + rnd.Intn(14)}
				f, e := p.shop(t, m)
				if rnd.Intn(2) == 0 {
					_, _ = f.Do(t.Context(), ask(), payment{Amount: 7})
				} else {
					_, _ = flow.Completer{Engine: e, Flows: []flow.Resumer{f}}.Round(t.Context())
				}
				drained(t, e)
				time.Sleep(time.Duration(rnd.Intn(3)) * time.Minute)
			}
			w.check(t, m, w.finally(t, m, rnd.Intn(2) == 0))
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
	}
}
