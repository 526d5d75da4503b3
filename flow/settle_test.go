package flow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/store/memstore"
)

// distant is a provider whose network is slow: a call takes effect when it arrives, whatever
// became of its sender.
type distant struct {
	*world
	takes  time.Duration // what a run sends that dies; 0: it is lost on the way
	settle func(flow.Phase[counts]) flow.Phase[counts]
}

// program is a process with a flow of one call. One that dies does so once the call is sent.
func (d *distant) program(t *testing.T, dies bool) (*flow.Flow[counts], *stet.Engine) {
	p := &process{world: d.world, Store: d.records}
	e := engineOn(t, p)
	phase := flow.Foreign("pay", func(ctx context.Context, call *flow.Call, s *counts) error {
		return call.Do(ctx, func(_ context.Context, key string) error {
			arrives := func() {
				d.mu.Lock()
				defer d.mu.Unlock()
				d.effects["pay"]++
				d.ids[key] = "pay_1"
			}
			if !dies {
				arrives()
				s.N++
				return nil
			}
			if d.takes > 0 {
				time.AfterFunc(d.takes, arrives)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.dead = true
			return errDead
		})
	}).Lookup(func(_ context.Context, key string, s *counts) (bool, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		_, ok := d.ids[key]
		if ok {
			s.N += 10
		}
		return ok, nil
	})
	if d.settle != nil {
		phase = d.settle(phase)
	}
	return build(t, flow.Config[counts]{Engine: e}, phase), e
}

// A call that was sent by a run which then crashed may arrive minutes later. Not found is no
// proof before that.
func TestNotFoundIsNoProofWhileTheCallMayArrive(t *testing.T) { // A13, I14
	settle := func(s time.Duration) func(p flow.Phase[counts]) flow.Phase[counts] {
		return func(p flow.Phase[counts]) flow.Phase[counts] { return p.Settle(s) }
	}
	for name, c := range map[string]struct {
		takes  time.Duration
		settle func(flow.Phase[counts]) flow.Phase[counts]
		within time.Duration // by when there is an answer
		answer string
		state  stet.State
	}{
		"it arrives":                  {4 * time.Minute, nil, 10 * time.Minute, "10", stet.Completed},
		"it never does":               {0, nil, 10 * time.Minute, "1", stet.Completed},
		"it arrives within more time": {7 * time.Minute, settle(10 * time.Minute), 15 * time.Minute, "10", stet.Completed},
		"the provider refuses it":     {0, settle(0), 3 * time.Minute, "1", stet.Completed},
		"not found never proves":      {time.Hour, settle(stet.Never), 20 * time.Hour, "", stet.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &distant{newWorld(false), c.takes, c.settle}
				f, e := d.program(t, true)
				if _, err := f.Do(t.Context(), ask(), counts{}); err == nil {
					t.Fatal("it lives")
				}
				drained(t, e)
				f, e = d.program(t, false)
				ctx, stop := context.WithTimeout(t.Context(), c.within)
				defer stop()
				if err := (flow.Completer{Engine: e, Flows: []flow.Resumer{f}}).Run(ctx); err != nil {
					t.Fatal(err)
				}
				r, err := e.Get(t.Context(), ask().ID)
				if err != nil || r.State != c.state || c.answer != "" && string(r.Response.Body) != c.answer {
					t.Fatalf("%s, %+v, %v", r.State, r.Response, err)
				}
				d.mu.Lock()
				defer d.mu.Unlock()
				if d.effects["pay"] != 1 {
					t.Errorf("%d effects", d.effects["pay"])
				}
			})
		})
	}
}

// What one run waited for is no proof for the next, where a run between them may have made the
// call.
func TestWaitingIsOfNoUseAfterAnotherCall(t *testing.T) { // A13
	synctest.Test(t, func(t *testing.T) {
		d := &distant{newWorld(false), 0, nil}
		f, e := d.program(t, true)
		_, _ = f.Do(t.Context(), ask(), counts{})
		drained(t, e)
		time.Sleep(time.Minute)
		f, _ = d.program(t, false)
		if _, err := f.Do(t.Context(), ask(), counts{}); !errors.Is(err, flow.ErrSuspended) || !errors.Is(err, stet.ErrNotSettled) {
			t.Fatal(err)
		}
		time.Sleep(flow.DefaultSettle)
		d.takes = 4 * time.Minute // from now on, and this one sends it, by proof, and dies; its engine may try for a lease to tell
		f, e = d.program(t, true)
		_, _ = f.Do(t.Context(), ask(), counts{})
		drained(t, e)
		time.Sleep(time.Minute)
		f, _ = d.program(t, false)
		if _, err := f.Do(t.Context(), ask(), counts{}); !errors.Is(err, stet.ErrNotSettled) {
			t.Errorf("%v, though the call of the run before is on its way", err)
		}
		time.Sleep(flow.DefaultSettle)
		if got, err := f.Do(t.Context(), ask(), counts{}); err != nil || string(got.Body) != "10" {
			t.Errorf("%q, %v", got.Body, err)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.effects["pay"] != 1 {
			t.Errorf("%d effects", d.effects["pay"])
		}
	})
}

func TestReconcileHeedsSettling(t *testing.T) { // A13, A04
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		o.found = func(string, *counts) (bool, error) { return false, nil }
		r := o.doubt(t)
		asks := func(h stet.Head, want error) {
			t.Helper()
			done, err := o.f.Reconcile(t.Context(), h, "reconciler")
			if done != (want == nil) || !errors.Is(err, want) {
				t.Errorf("%v, %v; want %v", done, err, want)
			}
		}
		asks(r.Head, stet.ErrNotSettled)
		time.Sleep(flow.DefaultSettle - time.Second)
		asks(r.Head, stet.ErrNotSettled)
		time.Sleep(time.Second)
		asks(r.Head, nil)
	})
	if flow.DefaultSettle != reconcile.DefaultSettle {
		t.Error("two packages have two rules")
	}
}

// A handler that is known to be at work may still make the call, and one that came to an end has
// an answer to the whole.
func TestResolveIsHeldAgainstTheRecord(t *testing.T) { // A04
	for name, c := range map[string]struct {
		change func(r *stet.Record)
		found  flow.Evidence[counts]
		want   error
	}{
		"attended":           {func(r *stet.Record) { r.Took = time.Hour }, flow.Evidence[counts]{}, stet.ErrAttended},
		"attended, and made": {func(r *stet.Record) { r.Took = time.Hour }, flow.Evidence[counts]{Made: true}, nil},
		"a late answer":      {func(r *stet.Record) { r.Response = &stet.Response{Status: 201} }, flow.Evidence[counts]{}, stet.ErrContradicted},
		"a late answer, and made": {func(r *stet.Record) { r.Response = &stet.Response{Status: 201} }, flow.Evidence[counts]{Made: true},
			stet.ErrContradicted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOffice(t)
				r := o.doubt(t)
				time.Sleep(time.Minute)
				prev := r.Version
				c.change(&r)
				c.found.Phase = "pay"
				r.Head.Version, r.DueIn = prev+2, 0
				if _, err := o.e.Store().Replace(t.Context(), prev, r.Head, &r.Body); err != nil {
					t.Fatal(err)
				}
				if err := o.f.Resolve(t.Context(), r.ID, r.Execution(), c.found, clerk); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
			})
		})
	}
}

// binds is a store that joins transactions of nothing.
type binds struct{ stet.Store }

func (b binds) Bind(any) (stet.Store, error) { return b.Store, nil }

type nothing struct{}

func (n nothing) Tx() any                      { return n }
func (nothing) Commit(context.Context) error   { return nil }
func (nothing) Rollback(context.Context) error { return nil }

// A phase may have to do with another engine, and say what that one said: it is no word about the
// flow's own claim, which would otherwise be left as it is, and renewed for ever.
func TestErrorsOfAnotherEngine(t *testing.T) { // A17
	for _, foreign := range []error{stet.ErrFenced, stet.ErrUnsettled, fmt.Errorf("pay: %w", &stet.Refused{Verdict: stet.InProgress})} {
		fail := func(context.Context, *flow.Call, *counts) error { return fmt.Errorf("another: %w", foreign) }
		for name, c := range map[string]struct {
			phase flow.Phase[counts]
			want  error
			state stet.State
		}{
			"local": {flow.Local("p", func(context.Context, nothing, *counts) error { return fmt.Errorf("another: %w", foreign) }),
				flow.ErrSuspended, stet.Running},
			"before the call": {flow.Foreign("p", fail), flow.ErrSuspended, stet.Running},
			"the call": {flow.Foreign("p", func(ctx context.Context, call *flow.Call, s *counts) error {
				return call.Do(ctx, func(context.Context, string) error { return fail(ctx, call, s) })
			}), flow.ErrUnknown, stet.Unknown},
		} {
			t.Run(fmt.Sprint(name, ": ", foreign), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := engineOn(t, binds{memstore.New(memstore.Config{})})
					f := build(t, flow.Config[counts]{Engine: e, Begin: func(context.Context) (stet.Transaction, error) { return nothing{}, nil }}, c.phase)
					_, err := f.Do(t.Context(), ask(), counts{})
					if !errors.Is(err, c.want) || !errors.Is(err, foreign) || !strings.Contains(err.Error(), "another: ") {
						t.Errorf("%v, want %v", err, c.want)
					}
					time.Sleep(10 * time.Minute) // a claim that is still held would be renewed
					r, err := e.Get(t.Context(), ask().ID)
					if err != nil || r.State != c.state || !r.Over() || r.UpdatedAt.Sub(r.CreatedAt) > time.Second {
						t.Errorf("%s, over: %v, written last %s after its beginning, %v", r.State, r.Over(), r.UpdatedAt.Sub(r.CreatedAt), err)
					}
				})
			})
		}
	}
}
