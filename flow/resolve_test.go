package flow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/store/memstore"
)

// office is a flow of three foreign phases, the second of which lost its answer.
type office struct {
	e     *stet.Engine
	f     *flow.Flow[counts]
	calls []string // phase and key
	lost  bool     // whether the second call's answer is lost
	found func(key string, s *counts) (bool, error)
}

func newOffice(t *testing.T) *office {
	o := &office{e: engineOn(t, memstore.New(memstore.Config{})), lost: true}
	o.found = func(string, *counts) (bool, error) { return false, errDown }
	phase := func(name string) flow.Phase[counts] {
		return flow.Foreign(name, func(ctx context.Context, call *flow.Call, s *counts) error {
			return call.Do(ctx, func(_ context.Context, key string) error {
				o.calls = append(o.calls, name+" "+key)
				if name == "pay" && o.lost {
					return flow.Maybe(errDown)
				}
				s.N++
				return nil
			})
		})
	}
	o.f = build(t, flow.Config[counts]{Engine: o.e}, phase("reserve"), phase("pay").Lookup(func(_ context.Context, key string, s *counts) (bool, error) {
		return o.found(key, s)
	}), phase("mail"))
	return o
}

// doubt runs the flow until its outcome is unknown.
func (o *office) doubt(t *testing.T) stet.Record {
	t.Helper()
	if _, err := o.f.Do(t.Context(), ask(), counts{}); !errors.Is(err, flow.ErrUnknown) {
		t.Fatal(err)
	}
	o.lost = false
	return o.record(t)
}

func (o *office) record(t *testing.T) stet.Record {
	t.Helper()
	r, err := o.e.Get(t.Context(), ask().ID)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// made are the phases that were called, in order.
func (o *office) made() (names []string) {
	for _, c := range o.calls {
		var name, key string
		_, _ = fmt.Sscan(c, &name, &key)
		names = append(names, name)
	}
	return names
}

func (o *office) complete(t *testing.T) {
	t.Helper()
	if n, err := (flow.Completer{Engine: o.e, Flows: []flow.Resumer{o.f}}).Round(t.Context()); n != 1 || err != nil {
		t.Fatalf("%d flows were completed, %v", n, err)
	}
}

var clerk = stet.Note{Who: "clerk", Why: "the provider's console", Evidence: "pay_7"}

func TestResolvedPhaseGoesOn(t *testing.T) { // I14, CR-06, CR-07, for one phase
	for name, c := range map[string]struct {
		found flow.Evidence[counts]
		calls []string
		body  string
	}{
		"it was made": {flow.Evidence[counts]{Made: true, Learn: func(s *counts) error { s.N += 10; return nil }, DownstreamID: "pay_7"},
			[]string{"reserve", "pay", "mail"}, "12"},
		"it was made, and nothing is learnt of it": {flow.Evidence[counts]{Made: true}, []string{"reserve", "pay", "mail"}, "2"},
		"it was not made":                          {flow.Evidence[counts]{}, []string{"reserve", "pay", "pay", "mail"}, "3"},
	} {
		for _, byClient := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", by a client: ", byClient), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := newOffice(t)
					c.found.Version = o.doubt(t).Version
					if err := o.f.Resolve(t.Context(), ask().ID, c.found, clerk); err != nil {
						t.Fatal(err)
					}
					if r := o.record(t); c.found.Made && (r.Point != "mail" || r.DownstreamID != c.found.DownstreamID) || r.State != stet.Running {
						t.Errorf("%s at %q, %q", r.State, r.Point, r.DownstreamID)
					}
					time.Sleep(90 * 24 * time.Hour) // what is to go on never ends by time
					if _, _, err := o.e.Operator().Reap(t.Context(), "", 0); err != nil {
						t.Fatal(err)
					}
					if !byClient {
						o.complete(t)
					}
					got, err := o.f.Do(t.Context(), ask(), counts{})
					if err != nil || string(got.Body) != c.body || !slices.Equal(o.made(), c.calls) {
						t.Errorf("%q, %v, after %v", got.Body, err, o.made())
					}
					if !c.found.Made && o.calls[1] != o.calls[2] {
						t.Errorf("it was sent again under another key: %v", o.calls)
					}
					h, _, err := o.e.Operator().History(t.Context(), stet.HistoryQuery{ID: ask().ID})
					if err != nil || len(h) != 1 || h[0].Note != clerk || h[0].Action() != "reopen" || h[0].From != stet.Unknown || h[0].To != stet.Running {
						t.Errorf("the history: %+v, %v", h, err)
					}
				})
			})
		}
	}
}

func TestResolveRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		have := o.doubt(t)
		other, err := flow.New(flow.Config[counts]{Name: "another", Engine: o.e, Answer: answer}, add("pay"))
		if err != nil {
			t.Fatal(err)
		}
		older := build(t, flow.Config[counts]{Engine: o.e}, add("reserve"))
		refuses := func(f *flow.Flow[counts], id stet.ID, found flow.Evidence[counts], n stet.Note, want error) {
			t.Helper()
			if err := f.Resolve(t.Context(), id, found, n); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		refuses(o.f, stet.ID{Scope: "s", Key: "none"}, flow.Evidence[counts]{}, clerk, stet.ErrNotFound)
		refuses(o.f, have.ID, flow.Evidence[counts]{Version: have.Version + 2}, clerk, stet.ErrStale)
		refuses(o.f, have.ID, flow.Evidence[counts]{}, stet.Note{}, stet.ErrNoReason)
		refuses(o.f, have.ID, flow.Evidence[counts]{Made: true, Learn: func(*counts) error { return errDown }}, clerk, errDown)
		refuses(other, have.ID, flow.Evidence[counts]{}, clerk, flow.ErrOtherFlow)
		refuses(older, have.ID, flow.Evidence[counts]{}, clerk, flow.ErrRelease)
		if now := o.record(t); now.Version != have.Version {
			t.Error("something was changed")
		}
		if err := o.f.Resolve(t.Context(), have.ID, flow.Evidence[counts]{Made: true}, clerk); err != nil {
			t.Fatal(err)
		}
		o.complete(t)
		refuses(o.f, have.ID, flow.Evidence[counts]{Made: true}, clerk, stet.ErrState) // it is done
	})
}

// What runs is not decided from outside.
func TestResolveLeavesRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engineOn(t, memstore.New(memstore.Config{}))
		var f *flow.Flow[counts]
		f = build(t, flow.Config[counts]{Engine: e}, flow.Foreign("p", func(ctx context.Context, _ *flow.Call, _ *counts) error {
			if err := f.Resolve(ctx, ask().ID, flow.Evidence[counts]{Made: true}, clerk); !errors.Is(err, stet.ErrState) {
				t.Errorf("resolved while it runs: %v", err)
			}
			return nil
		}))
		if _, err := f.Do(t.Context(), ask(), counts{}); err != nil {
			t.Error(err)
		}
	})
}

func TestReconcilerEndsADoubtByThePhasesLookup(t *testing.T) { // CR-06, CR-07
	for name, c := range map[string]struct {
		found func(key string, s *counts) (bool, error)
		calls int
		body  string
	}{
		"found":          {func(_ string, s *counts) (bool, error) { s.N += 10; return true, nil }, 3, "12"},
		"proven missing": {func(_ string, s *counts) (bool, error) { s.N += 10; return false, nil }, 4, "3"}, // once it has settled
		"not yet known":  {func(string, *counts) (bool, error) { return false, errDown }, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOffice(t)
				asked := 0
				o.found = func(key string, s *counts) (bool, error) {
					if asked++; key != o.record(t).DownstreamKey {
						t.Errorf("asked about %q", key)
					}
					return c.found(key, s)
				}
				o.doubt(t)
				ctx, stop := context.WithTimeout(t.Context(), flow.DefaultSettle+5*time.Minute)
				defer stop()
				resolver := reconcile.Resolver(func(ctx context.Context, h stet.Head) (reconcile.Finding, error) {
					if done, err := o.f.Reconcile(ctx, h, "reconciler"); done || err != nil {
						return reconcile.Finding{Effect: reconcile.GoesOn}, err
					}
					return reconcile.Finding{}, nil
				})
				if err := (reconcile.Reconciler{Engine: o.e, Resolver: resolver}).Run(ctx); err != nil {
					t.Fatal(err)
				}
				if c.body == "" {
					if r := o.record(t); r.State != stet.Unknown || asked < 2 {
						t.Errorf("%s, asked %d times", r.State, asked)
					}
				} else {
					o.complete(t)
					if got, err := o.f.Do(t.Context(), ask(), counts{}); err != nil || string(got.Body) != c.body || (asked == 1) != (c.calls == 3) {
						t.Errorf("%q, %v, asked %d times", got.Body, err, asked)
					}
				}
				if len(o.calls) != c.calls {
					t.Errorf("called %v", o.made())
				}
			})
		})
	}
}

func TestReconcileLeavesWhatItCannotAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engineOn(t, memstore.New(memstore.Config{}))
		f := build(t, flow.Config[counts]{Engine: e}, flow.Foreign("p", func(context.Context, *flow.Call, *counts) error { return flow.Maybe(errDown) }))
		_, _ = f.Do(t.Context(), ask(), counts{})
		r, err := e.Get(t.Context(), ask().ID)
		if err != nil {
			t.Fatal(err)
		}
		if done, err := f.Reconcile(t.Context(), r.Head, "reconciler"); done || err != nil {
			t.Errorf("a phase without a Lookup: %v, %v", done, err)
		}
		other, err := flow.New(flow.Config[counts]{Name: "another", Engine: e, Answer: answer}, add("p"))
		if err != nil {
			t.Fatal(err)
		}
		if done, err := other.Reconcile(t.Context(), r.Head, "reconciler"); done || err != nil {
			t.Errorf("another flow's record: %v, %v", done, err)
		}
		r.Version++
		if done, err := f.Reconcile(t.Context(), r.Head, "reconciler"); done || !errors.Is(err, stet.ErrStale) {
			t.Errorf("a version that is gone: %v, %v", done, err)
		}
		r.Version = 0
		if done, err := f.Reconcile(t.Context(), r.Head, "reconciler"); done || !errors.Is(err, stet.ErrStale) {
			t.Errorf("a head that was not read: %v, %v", done, err)
		}
	})
}
