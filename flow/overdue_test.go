package flow_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/flow"
	"github.com/stet-dev/stet/reconcile"
	"github.com/stet-dev/stet/store/memstore"
)

// A call that ignores the end of its run's time is made by no other run before it has returned,
// however long "not found" has lasted. What it says in the end is evidence about its phase.
func TestACallThatOutlastsItsRun(t *testing.T) { // K05
	const hangs = time.Hour
	for name, c := range map[string]struct {
		says    func(*flow.Call) error
		effect  bool // the call has its effect before it returns
		error   error
		effects int64
		state   stet.State
		answer  string
	}{
		"it had its effect":  {func(c *flow.Call) error { c.Learned("pay_1"); return nil }, true, flow.ErrSuspended, 1, stet.Completed, "2"},
		"it was not sent":    {func(*flow.Call) error { return flow.RetryLater(errDown) }, false, flow.ErrSuspended, 1, stet.Completed, "2"},
		"it was declined":    {func(*flow.Call) error { return flow.Decline(stet.Response{Status: 402}) }, false, nil, 0, stet.Completed, ""},
		"it cannot tell":     {func(*flow.Call) error { return flow.Maybe(errDown) }, true, flow.ErrUnknown, 1, stet.Unknown, ""},
		"it uses call twice": {func(c *flow.Call) error { return c.Do(context.Background(), nil) }, true, flow.ErrUnknown, 1, stet.Unknown, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := engineOn(t, memstore.New(memstore.Config{}))
				var calls, effects atomic.Int64
				f := build(t, flow.Config[counts]{Engine: e},
					flow.Foreign("pay", func(ctx context.Context, call *flow.Call, s *counts) error {
						return call.Do(ctx, func(context.Context, string) error {
							if calls.Add(1) > 1 {
								effects.Add(1)
								s.N++
								return nil
							}
							time.Sleep(hangs) // and heeds nothing
							if c.effect {
								effects.Add(1)
								s.N++
							}
							return c.says(call)
						})
					}).Lookup(func(context.Context, string, *counts) (bool, error) { return false, nil }),
					flow.Foreign("mail", func(context.Context, *flow.Call, *counts) error { return nil }),
					flow.Foreign("count", func(_ context.Context, _ *flow.Call, s *counts) error { s.N++; return nil }))
				ended := make(chan error)
				go func() {
					_, err := f.Do(t.Context(), ask(), counts{})
					ended <- err
				}()
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				loops := make(chan error, 2)
				go func() { loops <- flow.Completer{Engine: e, Flows: []flow.Resumer{f}}.Run(ctx) }()
				resolver := reconcile.Resolver(func(ctx context.Context, h stet.Head) (reconcile.Finding, error) {
					if done, err := f.Reconcile(ctx, h, "reconciler"); done || err != nil {
						return reconcile.Finding{Effect: reconcile.GoesOn}, err
					}
					return reconcile.Finding{}, nil
				})
				go func() { loops <- reconcile.Reconciler{Engine: e, Resolver: resolver}.Run(ctx) }()
				time.Sleep(hangs - time.Minute)
				if have, err := e.Get(t.Context(), ask().ID); err != nil || have.State != stet.Unknown || !have.Attended() || have.DownstreamKey == "" || calls.Load() != 1 {
					t.Errorf("while the call hangs the record is %v, attended %v, of key %q, with %d calls, %v",
						have.State, have.Attended(), have.DownstreamKey, calls.Load(), err)
				}
				if err := <-ended; !errors.Is(err, c.error) || (err == nil) != (c.error == nil) {
					t.Errorf("Do returned %v", err)
				}
				have, err := e.Get(t.Context(), ask().ID)
				if err != nil || have.Attended() {
					t.Errorf("the call has returned, and attended is %v, %v", have.Attended(), err)
				}
				time.Sleep(2 * time.Minute) // settling takes longer
				have, err = e.Get(t.Context(), ask().ID)
				if err != nil || have.State != c.state || effects.Load() != c.effects {
					t.Errorf("in the end: %v after %d effects, %v", have.State, effects.Load(), err)
				}
				if c.answer != "" && (have.Response == nil || string(have.Response.Body) != c.answer) {
					t.Errorf("the answer is %+v", have.Response)
				}
				stop()
				for range 2 {
					if err := <-loops; err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// A call that may be repeated is, by another run.
func TestAHonouredCallThatHangsIsRepeated(t *testing.T) { // K05
	synctest.Test(t, func(t *testing.T) {
		e := engineOn(t, memstore.New(memstore.Config{}))
		var calls atomic.Int64
		f := build(t, flow.Config[counts]{Engine: e}, flow.Foreign("pay", func(ctx context.Context, call *flow.Call, s *counts) error {
			return call.Do(ctx, func(context.Context, string) error {
				if s.N++; calls.Add(1) == 1 {
					time.Sleep(time.Hour)
				}
				return nil
			})
		}).HonoursKey())
		first := make(chan error)
		go func() {
			_, err := f.Do(t.Context(), ask(), counts{})
			first <- err
		}()
		time.Sleep(30 * time.Minute)
		if got, err := f.Do(t.Context(), ask(), counts{}); err != nil || string(got.Body) != "1" || calls.Load() != 2 {
			t.Errorf("%q after %d calls, %v", got.Body, calls.Load(), err)
		}
		if err := <-first; err == nil {
			t.Error("the run that was overtaken succeeded")
		}
	})
}

// A run whose time went by while it looked a call up does not begin the call.
func TestALookupThatOutlastsItsRun(t *testing.T) { // K05
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(false)
		var calls, lookups atomic.Int64
		program := func() (*stet.Engine, *flow.Flow[counts]) {
			p := &process{world: w, Store: w.records}
			e := engineOn(t, p)
			return e, build(t, flow.Config[counts]{Engine: e},
				flow.Foreign("pay", func(ctx context.Context, call *flow.Call, s *counts) error {
					_ = call.Key()
					if calls.Add(1) == 1 {
						p.mu.Lock()
						defer p.mu.Unlock()
						p.dead = true
						return errDead
					}
					s.N++
					return nil
				}).Settle(0).Lookup(func(context.Context, string, *counts) (bool, error) {
					if lookups.Add(1) == 1 {
						time.Sleep(time.Hour)
					}
					return false, nil
				}))
		}
		dead, dies := program()
		if _, err := dies.Do(t.Context(), ask(), counts{}); err == nil {
			t.Fatal("it lives")
		}
		drained(t, dead)
		time.Sleep(10 * time.Minute)
		_, hangs := program()
		first := make(chan error)
		go func() {
			_, err := hangs.Do(t.Context(), ask(), counts{})
			first <- err
		}()
		time.Sleep(30 * time.Minute)
		_, lives := program()
		if got, err := lives.Do(t.Context(), ask(), counts{}); err != nil || string(got.Body) != "1" {
			t.Errorf("%q, %v", got.Body, err)
		}
		if err := <-first; err == nil || calls.Load() != 2 || lookups.Load() != 2 {
			t.Errorf("the run that was overtaken returned %v, after %d calls and %d lookups", err, calls.Load(), lookups.Load())
		}
	})
}
