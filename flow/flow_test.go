package flow_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/store/memstore"
)

type counts struct{ N int }

func answer(s *counts) stet.Response { return stet.Response{Status: 200, Body: fmt.Append(nil, s.N)} }

func engineOn(t *testing.T, s stet.Store) *stet.Engine {
	t.Helper()
	e, err := stet.New(s, stet.Config{Policy: policy})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func build(t *testing.T, c flow.Config[counts], phases ...flow.Phase[counts]) *flow.Flow[counts] {
	t.Helper()
	c.Name, c.Answer = "f", answer
	f, err := flow.New(c, phases...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func add(name string) flow.Phase[counts] {
	return flow.Foreign(name, func(ctx context.Context, call *flow.Call, s *counts) error {
		return call.Do(ctx, func(context.Context, string) error { s.N++; return nil })
	})
}

var errDown = errors.New("down")

func TestHowAPhaseEnds(t *testing.T) {
	send := func(err error) func(context.Context, *flow.Call, *counts) error {
		return func(ctx context.Context, call *flow.Call, s *counts) error {
			s.N = 99 // of a phase that failed nothing may be left
			return call.Do(ctx, func(context.Context, string) error { return err })
		}
	}
	before := func(err error) func(context.Context, *flow.Call, *counts) error {
		return func(context.Context, *flow.Call, *counts) error { return err }
	}
	twice := func(ctx context.Context, call *flow.Call, _ *counts) error {
		for range 2 {
			_ = call.Do(ctx, func(context.Context, string) error { return nil })
		}
		return nil
	}
	for name, c := range map[string]struct {
		phase flow.Phase[counts]
		want  error
		state stet.State
	}{
		"declined":                 {flow.Foreign("p", send(flow.Decline(stet.Response{Status: 402}))), nil, stet.Completed},
		"not sent":                 {flow.Foreign("p", send(flow.RetryLater(errDown))), flow.ErrSuspended, stet.Running},
		"an error before the call": {flow.Foreign("p", before(errDown)), flow.ErrSuspended, stet.Running},
		"an error after the key was seen": {flow.Foreign("p", func(_ context.Context, call *flow.Call, _ *counts) error {
			return fmt.Errorf("sent with %d bytes of key: %w", len(call.Key()), errDown) // by itself, not through Do
		}), flow.ErrUnknown, stet.Unknown}, // K04
		"the key is seen, then the call": {flow.Foreign("p", func(ctx context.Context, call *flow.Call, _ *counts) error {
			_ = call.Key()
			return call.Do(ctx, func(context.Context, string) error { return flow.RetryLater(errDown) })
		}), flow.ErrSuspended, stet.Running},
		"an error of the call":           {flow.Foreign("p", send(errDown)), flow.ErrUnknown, stet.Unknown},
		"unknown":                        {flow.Foreign("p", send(flow.Maybe(errDown))), flow.ErrUnknown, stet.Unknown},
		"unknown, keys are honoured":     {flow.Foreign("p", send(flow.Maybe(errDown))).HonoursKey(), flow.ErrSuspended, stet.Running},
		"a second effect":                {flow.Foreign("p", twice), flow.ErrSecondEffect, stet.Unknown},
		"a second effect, keys honoured": {flow.Foreign("p", twice).HonoursKey(), flow.ErrSecondEffect, stet.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := engineOn(t, memstore.New(memstore.Config{}))
				f := build(t, flow.Config[counts]{Engine: e}, add("first"), c.phase, add("last"))
				got, err := f.Do(t.Context(), ask(), counts{})
				if !errors.Is(err, c.want) || c.want == nil && got.Status != 402 {
					t.Fatalf("%+v, %v; want %v", got, err, c.want)
				}
				r, _ := e.Get(t.Context(), ask().ID)
				if r.State != c.state || r.Point != "p" {
					t.Errorf("%s at %q, want %s", r.State, r.Point, c.state)
				}
				if c.state == stet.Unknown && r.DownstreamKey == "" {
					t.Error("nobody knows what to ask the provider for")
				}
				if c.state != stet.Running {
					return
				}
				time.Sleep(flow.DefaultBackoff)
				good := build(t, flow.Config[counts]{Engine: e}, add("first"), add("p").HonoursKey(), add("last"))
				if got, err := good.Do(t.Context(), ask(), counts{}); err != nil || string(got.Body) != "3" {
					t.Errorf("later: %q, %v", got.Body, err)
				}
			})
		})
	}
}

func TestProvenNotSentIsSentLater(t *testing.T) { // without HonoursKey: the proof is stored
	synctest.Test(t, func(t *testing.T) {
		e := engineOn(t, memstore.New(memstore.Config{}))
		down := true
		f := build(t, flow.Config[counts]{Engine: e}, flow.Foreign("p", func(ctx context.Context, call *flow.Call, s *counts) error {
			if down {
				return flow.RetryLater(errDown)
			}
			return call.Do(ctx, func(context.Context, string) error { s.N++; return nil })
		}))
		for range 3 {
			if _, err := f.Do(t.Context(), ask(), counts{}); !errors.Is(err, flow.ErrSuspended) {
				t.Fatal(err)
			}
			time.Sleep(flow.MaxBackoff)
		}
		down = false
		if n, err := (flow.Completer{Engine: e, Flows: []flow.Resumer{f}}).Round(t.Context()); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if got, err := f.Do(t.Context(), ask(), counts{}); err != nil || string(got.Body) != "1" {
			t.Errorf("%q, %v", got.Body, err)
		}
	})
}

func TestPanic(t *testing.T) {
	for name, c := range map[string]struct {
		honours bool
		want    stet.State
	}{"honours keys": {true, stet.Running}, "does not": {false, stet.Unknown}} {
		t.Run(name, func(t *testing.T) {
			e := engineOn(t, memstore.New(memstore.Config{}))
			p := flow.Foreign("p", func(context.Context, *flow.Call, *counts) error { panic("boom") })
			if c.honours {
				p = p.HonoursKey()
			}
			func() {
				defer func() {
					if recover() != "boom" {
						t.Error("the panic did not go on")
					}
				}()
				_, _ = build(t, flow.Config[counts]{Engine: e}, p).Do(t.Context(), ask(), counts{})
			}()
			if r, _ := e.Get(t.Context(), ask().ID); r.State != c.want {
				t.Errorf("%s, want %s", r.State, c.want)
			}
		})
	}
}

func TestReleases(t *testing.T) {
	stop := flow.Foreign("charge", func(context.Context, *flow.Call, *counts) error { return errDown })
	upgrade := func(_ int, state []byte) (s counts, err error) {
		err = json.Unmarshal(state, &s)
		s.N += 10
		return s, err
	}
	for name, c := range map[string]struct {
		phases []flow.Phase[counts]
		config flow.Config[counts]
		want   error
		answer string
	}{
		"the same":               {[]flow.Phase[counts]{add("reserve"), add("charge"), add("book")}, flow.Config[counts]{}, nil, "3"},
		"renamed, one added":     {[]flow.Phase[counts]{add("reserve"), add("pay").Was("charge"), add("tell"), add("book")}, flow.Config[counts]{}, nil, "4"},
		"renamed without saying": {[]flow.Phase[counts]{add("reserve"), add("pay"), add("book")}, flow.Config[counts]{}, flow.ErrRelease, ""},
		"a new schema":           {[]flow.Phase[counts]{add("reserve"), add("charge"), add("book")}, flow.Config[counts]{Schema: 2}, flow.ErrRelease, ""},
		"a schema upgraded":      {[]flow.Phase[counts]{add("reserve"), add("charge"), add("book")}, flow.Config[counts]{Schema: 2, Upgrade: upgrade}, nil, "13"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := engineOn(t, memstore.New(memstore.Config{}))
				if _, err := build(t, flow.Config[counts]{Engine: e}, add("reserve"), stop, add("book")).Do(t.Context(), ask(), counts{}); !errors.Is(err, flow.ErrSuspended) {
					t.Fatal(err)
				}
				time.Sleep(flow.DefaultBackoff)
				c.config.Engine = e
				f := build(t, c.config, c.phases...)
				var err error
				if c.want != nil { // a completer does not even take it
					says := map[string]string{"renamed without saying": `called "charge"`, "a new schema": "schema 1, not 2"}[name]
					if _, err = f.Resume(t.Context(), ask().ID); !errors.Is(err, c.want) || !strings.Contains(err.Error(), says) {
						t.Errorf("resume: %v", err)
					}
				}
				before, _ := e.Get(t.Context(), ask().ID)
				got, err := f.Do(t.Context(), ask(), counts{})
				if !errors.Is(err, c.want) || string(got.Body) != c.answer {
					t.Errorf("%q, %v; want %q, %v", got.Body, err, c.answer, c.want)
				}
				if r, _ := e.Get(t.Context(), ask().ID); c.want != nil && (r.State != stet.Running || r.Point != "charge" || r.Version != before.Version) {
					t.Errorf("%s at %q, attempt %d", r.State, r.Point, r.Attempt) // K10: nothing is written
				}
			})
		})
	}
}

func TestOneWritePerPhase(t *testing.T) {
	w := newWorld(false)
	p := &process{world: w, Store: w.records}
	f := build(t, flow.Config[counts]{Engine: engineOn(t, p)}, add("a"), add("b"), add("c"))
	if _, err := f.Do(t.Context(), ask(), counts{}); err != nil {
		t.Fatal(err)
	}
	if calls := p.step / 2; calls != 1+3+1 { // reserve, one for each phase, settle
		t.Errorf("%d store calls", calls)
	}
}

// joiner is a store whose transactions are not used.
type joiner struct{ stet.Store }

func (joiner) Bind(any) (stet.Store, error) { return nil, stet.ErrForeignTx }

func TestWhatCannotWork(t *testing.T) {
	e := engineOn(t, struct{ stet.Store }{memstore.New(memstore.Config{})})
	local := flow.Local("l", func(context.Context, *sql.Tx, *counts) error { return nil })
	for name, phases := range map[string][]flow.Phase[counts]{
		"no phases": nil, "no name": {add("")}, "one name twice": {add("a"), add("b").Was("a")}, "the reserved name": {add("done")},
		"local, and no transactions": {local}, "nothing": {{}},
	} {
		if _, err := flow.New(flow.Config[counts]{Name: "f", Engine: e, Answer: answer, DB: new(sql.DB)}, phases...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	joins := engineOn(t, joiner{memstore.New(memstore.Config{})})
	begin := func(context.Context) (stet.Transaction, error) { return nil, errDown }
	other := flow.Local("o", func(context.Context, int, *counts) error { return nil })
	for name, c := range map[string]struct {
		config flow.Config[counts]
		phase  flow.Phase[counts]
		works  bool
	}{
		"a DB":                          {flow.Config[counts]{DB: new(sql.DB)}, local, true},
		"a Begin":                       {flow.Config[counts]{Begin: begin}, other, true},
		"neither":                       {flow.Config[counts]{}, local, false},
		"both":                          {flow.Config[counts]{DB: new(sql.DB), Begin: begin}, local, false},
		"a DB, and another transaction": {flow.Config[counts]{DB: new(sql.DB)}, other, false},
	} {
		c.config.Name, c.config.Engine, c.config.Answer = "f", joins, answer
		if _, err := flow.New(c.config, c.phase); (err == nil) != c.works {
			t.Errorf("%s: %v", name, err)
		}
	}
	q := ask()
	q.Policy = &stet.Policy{}
	f := build(t, flow.Config[counts]{Engine: e}, add("a"))
	if _, err := f.Do(t.Context(), q, counts{}); !errors.Is(err, flow.ErrRules) {
		t.Errorf("rules: %v", err)
	}
}

func TestCompleterFinishesByItself(t *testing.T) { // many at once: each record goes on once
	synctest.Test(t, func(t *testing.T) {
		e := engineOn(t, memstore.New(memstore.Config{}))
		down, calls := true, 0
		f := build(t, flow.Config[counts]{Engine: e}, flow.Foreign("p", func(ctx context.Context, call *flow.Call, s *counts) error {
			if down {
				return flow.RetryLater(errDown)
			}
			return call.Do(ctx, func(context.Context, string) error { calls++; s.N++; return nil })
		}))
		if _, err := f.Do(t.Context(), ask(), counts{}); !errors.Is(err, flow.ErrSuspended) {
			t.Fatal(err)
		}
		down = false
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		for range 10 {
			go func() { ended <- flow.Completer{Engine: e, Flows: []flow.Resumer{f}}.Run(ctx) }()
		}
		time.Sleep(flow.DefaultBackoff + 2*flow.DefaultEvery)
		synctest.Wait()
		stop()
		for range 10 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if r, err := e.Get(t.Context(), ask().ID); err != nil || r.State != stet.Completed || r.Attempt != 2 || calls != 1 {
			t.Errorf("%s, attempt %d, %d calls; %v", r.State, r.Attempt, calls, err)
		}
	})
}

func TestAttemptsAndStateAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engineOn(t, memstore.New(memstore.Config{}))
		f := build(t, flow.Config[counts]{Engine: e, Attempts: 3}, flow.Foreign("p", func(context.Context, *flow.Call, *counts) error { return errDown }).HonoursKey())
		for _, want := range []error{flow.ErrSuspended, flow.ErrSuspended, flow.ErrUnknown} {
			if _, err := f.Do(t.Context(), ask(), counts{}); !errors.Is(err, want) {
				t.Fatalf("%v, want %v", err, want)
			}
			time.Sleep(flow.MaxBackoff)
		}
		big, err := flow.New(flow.Config[string]{Name: "big", Engine: e, Answer: func(*string) stet.Response { return stet.Response{} }},
			flow.Foreign("p", func(context.Context, *flow.Call, *string) error { return nil }))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := big.Do(t.Context(), ask(), string(make([]byte, flow.MaxState))); !errors.Is(err, flow.ErrStateTooBig) {
			t.Error(err)
		}
	})
}

func TestProcessThatEnds(t *testing.T) { // what it abandons is suspended, not unknown
	synctest.Test(t, func(t *testing.T) {
		e := engineOn(t, memstore.New(memstore.Config{}))
		f := build(t, flow.Config[counts]{Engine: e}, flow.Foreign("p", func(ctx context.Context, call *flow.Call, _ *counts) error {
			<-ctx.Done()
			return call.Do(ctx, func(context.Context, string) error { panic("sent after the end") })
		}))
		go func() {
			time.Sleep(time.Second)
			e.Abandon(t.Context())
		}()
		if _, err := f.Do(t.Context(), ask(), counts{}); !errors.Is(err, flow.ErrSuspended) || !errors.Is(err, stet.ErrAbandoned) {
			t.Error(err)
		}
	})
}
