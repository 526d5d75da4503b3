package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

var reapLaws = []law{
	{"reap", "Reap removes only records whose time is over, up to its limit, and returns how many", reap},
	{"reap concurrently",
		"Reap leaves a record that changes at the same moment, and counts each removed record once", reapRacers},
}

func reap(t testing.TB, x *bench) {
	r := ability[stet.Reaper](t, x)
	over := func(h *stet.Head) { h.State, h.Status, h.DueIn = stet.Completed, 201, 0 }
	stay := map[string]func(h *stet.Head){
		"running":   func(h *stet.Head) { h.DueIn = 0 },
		"unknown":   func(h *stet.Head) { h.State, h.DueIn = stet.Unknown, 0 },
		"later":     completed,
		"never":     func(h *stet.Head) { over(h); h.DueIn = stet.Never },
		"kept":      func(h *stet.Head) { over(h); h.Rules.KeepExpired = time.Hour },
		"retryable": func(h *stet.Head) { h.State, h.DueIn = stet.Retryable, time.Hour },
		"expired":   func(h *stet.Head) { h.State, h.DueIn = stet.Expired, time.Hour },
	}
	gone := map[string]func(h *stet.Head){
		"was retryable": func(h *stet.Head) { h.State, h.DueIn = stet.Retryable, 0 },
		"was expired":   func(h *stet.Head) { h.State, h.DueIn, h.Rules.KeepExpired = stet.Expired, 0, time.Hour },
		"was large":     over,
	}
	for i := range 8 {
		gone[fmt.Sprint("was ", i)] = over
	}
	for _, all := range []map[string]func(h *stet.Head){stay, gone} {
		for key, change := range all {
			x.replace(x.create(running(key)).Head, &stet.Body{Response: &stet.Response{Status: 201, Body: make([]byte, 100)}}, change)
		}
	}
	x.pass(10 * time.Millisecond)
	for _, step := range []struct{ limit, want int }{{5, 5}, {1000, len(gone) - 5}, {1000, 0}} {
		if n, err := r.Reap(x.ctx, step.limit); err != nil || n != step.want {
			t.Errorf("Reap(%d): %d, %v; want %d", step.limit, n, err, step.want)
		}
	}
	for key := range stay {
		x.get(running(key).ID)
	}
	for key := range gone {
		if _, err := x.store.Get(x.ctx, running(key).ID); !errors.Is(err, stet.ErrNotFound) {
			t.Errorf("%q, which is over, is still there: %v", key, err)
		}
	}
	x.create(running("was 0")) // its name is free
}

func reapRacers(t testing.TB, x *bench) {
	r := ability[stet.Reaper](t, x)
	const records = 60
	heads := make([]stet.Head, records)
	for i := range heads {
		heads[i] = x.replace(x.create(running(fmt.Sprint(i))).Head, nil, func(h *stet.Head) { completed(h); h.DueIn = 0 })
	}
	x.pass(10 * time.Millisecond)
	var removed, changed atomic.Int64
	some := func() bool {
		n, err := r.Reap(x.ctx, 7)
		removed.Add(int64(n))
		if err != nil {
			t.Errorf("Reap: %v", err)
		}
		return n == 7
	}
	live := func(h *stet.Head) {
		next := *h
		next.Version, next.State, next.DueIn, next.CreatedAt, next.CompletedAt = draw(), stet.Running, time.Minute, time.Time{}, time.Time{}
		switch got, err := x.store.Replace(x.ctx, h.Version, next, &stet.Body{}); {
		case err == nil:
			changed.Add(1)
			*h = got
		case !errors.Is(err, stet.ErrNotFound):
			t.Errorf("Replace: %v", err)
		}
	}
	some()
	for i := range records / 3 { // between two batches, and then while others run
		live(&heads[records-1-i])
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for some() {
			}
		})
	}
	wg.Go(func() {
		for i := records - 1 - records/3; i >= 0; i-- {
			live(&heads[i])
		}
	})
	wg.Wait()
	for _, h := range heads {
		if h.State == stet.Running && x.get(h.ID).Version != h.Version {
			t.Errorf("a new life was changed")
		}
	}
	if n := removed.Load() + changed.Load(); n > records {
		t.Errorf("%d removed, %d changed, of %d", removed.Load(), changed.Load(), records)
	}
	rest, err := r.Reap(x.ctx, records) // what was passed over
	if n := removed.Load() + changed.Load() + int64(rest); err != nil || n != records {
		t.Errorf("%d removed, %d changed, %d removed after all, of %d: %v", removed.Load(), changed.Load(), rest, records, err)
	}
}
