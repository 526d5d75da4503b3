package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/storetest/faulty"
)

var faultLaws = []law{
	{"lost calls",
		"if 30 % of requests and replies are lost, an engine never executes a request twice, never fences itself off, and loses no body",
		lostCalls},
	{"abandoned requests",
		"a request that gives up on a slow store leaves at most a record that the next request may take over and a reaper removes",
		givenUp},
	{"many keys", "a thousand concurrent keys do not block each other, and no key evicts another", crowd},
}

func lostCalls(t testing.TB, x *bench) { // I1, I3, I11, W2, W34
	lossy := faulty.New(x.store, 42)
	engine, err := stet.New(lossy, stet.Config{Policy: stet.Policy{Lease: time.Hour}, StoreTimeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	lossy.Lose(0.3, 0.3)
	const keys, racers = 60, 4
	var gaveUp, unsettled atomic.Int64
	settled := make([]atomic.Bool, keys)
	var wg sync.WaitGroup
	for k := range keys {
		var ran atomic.Int64
		for range racers {
			wg.Go(func() {
				d, err := engine.Begin(x.ctx, stet.Request{ID: stet.ID{Scope: "s", Key: stet.Key(key(k))}})
				if err != nil {
					gaveUp.Add(1)
					return
				}
				if d.Verdict != stet.Execute {
					return
				}
				if ran.Add(1) > 1 {
					t.Errorf("key %d was executed twice", k)
				}
				for i := range 3 {
					if err := d.Claim.Step(x.ctx, stet.Step{Point: fmt.Sprint(i), Progress: []byte("p")}); err != nil {
						t.Errorf("key %d: the claim lost itself: %v", k, err)
					}
				}
				if err := d.Claim.Settle(x.ctx, stet.Outcome{Response: stet.Response{Status: 201, Body: []byte(key(k))}}); err != nil {
					unsettled.Add(1)
				} else {
					settled[k].Store(true)
				}
			})
		}
	}
	wg.Wait()
	lossy.Up()
	if err := engine.Drain(x.ctx); err != nil {
		t.Fatal(err)
	}
	for k := range keys {
		got, err := x.store.Get(x.ctx, stet.ID{Scope: "s", Key: stet.Key(key(k))})
		if settled[k].Load() && (err != nil || got.State != stet.Completed || got.Response == nil || string(got.Response.Body) != key(k)) {
			t.Errorf("key %d was settled, and is %v (%v)", k, got.State, err)
		}
	}
	if n := gaveUp.Load() + unsettled.Load(); n > keys {
		t.Errorf("%d requests gave up and %d were not settled: the law was hardly put to the test", gaveUp.Load(), unsettled.Load())
	}
}

func givenUp(t testing.TB, x *bench) { // W2, SF-02, A14
	slow := faulty.New(x.store, 1)
	// A reservation is withdrawn for four times this long, which has to outlast the slowest of the
	// requests on a machine that stands still for a second or two.
	engine, err := stet.New(slow, stet.Config{StoreTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	slow.LoseReplies(1)
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			if _, err := engine.Begin(x.ctx, stet.Request{ID: stet.ID{Scope: "s", Key: stet.Key(key(i))}}); err == nil {
				t.Error("a Begin without an answer was decided")
			}
		})
	}
	wg.Wait()
	slow.Up()
	if err := engine.Drain(x.ctx); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		r, err := x.store.Get(x.ctx, stet.ID{Scope: "s", Key: stet.Key(key(i))})
		tombstone := err == nil && r.State == stet.Retryable && r.Cause == stet.CauseGivenUp && r.Over()
		if !tombstone && !errors.Is(err, stet.ErrNotFound) {
			t.Errorf("a reservation without a holder is left behind: %v, %v", r.State, err)
		}
	}
}

func crowd(t testing.TB, x *bench) { // CC-10, I10
	engine, err := stet.New(x.store, stet.Config{StoreTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(x.ctx, 2*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	const keys = 1000
	for i := range keys {
		wg.Go(func() {
			d, err := engine.Begin(ctx, stet.Request{ID: stet.ID{Scope: "s", Key: stet.Key(key(i))}})
			if err != nil || d.Verdict != stet.Execute {
				t.Errorf("Begin: %v, %v", d.Verdict, err)
				return
			}
			if err := d.Claim.Settle(ctx, stet.Outcome{Response: stet.Response{Status: 200}}); err != nil {
				t.Errorf("Settle: %v", err)
			}
		})
	}
	wg.Wait()
	for i := range keys {
		if r, err := x.store.Get(ctx, stet.ID{Scope: "s", Key: stet.Key(key(i))}); err != nil || r.State != stet.Completed {
			t.Fatalf("key %d was settled, and is %v (%v)", i, r.State, err)
		}
	}
}
