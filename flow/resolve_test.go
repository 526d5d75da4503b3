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
	"github.com/stet-dev/stet/internal/execution"
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
					have := o.doubt(t)
					c.found.Phase = "pay"
					if err := o.f.Resolve(t.Context(), ask().ID, have.Execution(), c.found, clerk); err != nil {
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
		of := have.Execution()
		not := flow.Evidence[counts]{Phase: "pay"}
		made := flow.Evidence[counts]{Phase: "pay", Made: true}
		unlearnt := made
		unlearnt.Learn = func(*counts) error { return errDown }
		refuses := func(f *flow.Flow[counts], id stet.ID, of stet.Execution, found flow.Evidence[counts], n stet.Note, want error) {
			t.Helper()
			if err := f.Resolve(t.Context(), id, of, found, n); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		refuses(o.f, stet.ID{Scope: "s", Key: "none"}, of, not, clerk, stet.ErrNotFound)
		refuses(o.f, have.ID, stet.Execution{Version: have.Version + 2}, not, clerk, stet.ErrStale)
		refuses(o.f, have.ID, of, not, stet.Note{}, stet.ErrNoReason)
		refuses(o.f, have.ID, of, unlearnt, clerk, errDown)
		refuses(other, have.ID, of, not, clerk, flow.ErrOtherFlow)
		refuses(older, have.ID, of, not, clerk, flow.ErrRelease)
		// K06: neither the phase nor the execution is taken for granted.
		refuses(o.f, have.ID, of, flow.Evidence[counts]{Made: true}, clerk, stet.ErrUnnamed)
		refuses(o.f, have.ID, stet.Execution{}, made, clerk, stet.ErrUnnamed)
		refuses(o.f, have.ID, stet.Execution{DownstreamID: "ch_1"}, not, clerk, stet.ErrUnnamed)
		refuses(o.f, have.ID, stet.Execution{DownstreamKey: have.DownstreamKey}, not, clerk, stet.ErrUnnamed)
		refuses(o.f, have.ID, stet.Execution{DownstreamKey: "another's"}, made, clerk, stet.ErrOtherRun)
		refuses(o.f, have.ID, stet.Execution{Fence: of.Fence - 1}, not, clerk, stet.ErrOtherRun)
		refuses(o.f, have.ID, of, flow.Evidence[counts]{Phase: "mail", Made: true}, clerk, flow.ErrOtherPhase)
		refuses(o.f, have.ID, of, flow.Evidence[counts]{Phase: "reserve"}, clerk, flow.ErrOtherPhase)
		refuses(o.f, have.ID, of, flow.Evidence[counts]{Phase: "none"}, clerk, flow.ErrOtherPhase)
		if now := o.record(t); now.Version != have.Version {
			t.Error("something was changed")
		}
		if err := o.f.Resolve(t.Context(), have.ID, stet.Execution{DownstreamKey: have.DownstreamKey}, made, clerk); err != nil {
			t.Fatal(err)
		}
		o.complete(t)
		refuses(o.f, have.ID, stet.Execution{DownstreamKey: have.LifeKey()}, made, clerk, stet.ErrState) // it is done
	})
}

// A true statement about the call of one phase comes when the record doubts that of the next: of
// the same execution, and of a later one.
func TestEvidenceIsAboutItsPhase(t *testing.T) { // K06
	for name, redelivered := range map[string]bool{"of the same execution": false, "of a later one": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := engineOn(t, memstore.New(memstore.Config{}))
				lost := map[string]bool{"charge": redelivered, "ship": true}
				calls := map[string]int{}
				phase := func(name string) flow.Phase[counts] {
					return flow.Foreign(name, func(ctx context.Context, call *flow.Call, _ *counts) error {
						return call.Do(ctx, func(context.Context, string) error {
							if calls[name]++; lost[name] {
								return flow.Maybe(errDown)
							}
							return nil
						})
					})
				}
				f := build(t, flow.Config[counts]{Engine: e}, phase("charge"), phase("ship"))
				_, _ = f.Do(t.Context(), ask(), counts{})
				of := execution.Of(t.Context(), e, ask().ID)
				charged := flow.Evidence[counts]{Phase: "charge", Made: true}
				if redelivered {
					if err := f.Resolve(t.Context(), ask().ID, of, charged, clerk); err != nil {
						t.Fatal(err)
					}
					_, _ = f.Do(t.Context(), ask(), counts{})
				}
				doubted, err := e.Get(t.Context(), ask().ID)
				if err != nil || doubted.Point != "ship" || doubted.State != stet.Unknown {
					t.Fatalf("%s at %q, %v", doubted.State, doubted.Point, err)
				}
				for _, found := range []flow.Evidence[counts]{charged, {Phase: "charge"}} {
					err := f.Resolve(t.Context(), ask().ID, of, found, clerk)
					if want := map[bool]error{false: flow.ErrOtherPhase, true: stet.ErrOtherRun}[redelivered]; !errors.Is(err, want) {
						t.Errorf("%+v: %v, want %v", found, err, want)
					}
				}
				if now, err := e.Get(t.Context(), ask().ID); err != nil || now.Version != doubted.Version || calls["ship"] != 1 || calls["charge"] != 1 {
					t.Errorf("it is %s, after %v; %v", now.State, calls, err)
				}
			})
		})
	}
}

// What runs is not decided from outside.
func TestResolveLeavesRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engineOn(t, memstore.New(memstore.Config{}))
		var f *flow.Flow[counts]
		f = build(t, flow.Config[counts]{Engine: e}, flow.Foreign("p", func(ctx context.Context, _ *flow.Call, _ *counts) error {
			if err := f.Resolve(ctx, ask().ID, execution.Of(ctx, e, ask().ID), flow.Evidence[counts]{Phase: "p", Made: true}, clerk); !errors.Is(err, stet.ErrState) {
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
