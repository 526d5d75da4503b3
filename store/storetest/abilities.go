package storetest

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/storetest/faulty"
)

var abilityLaws = []law{
	{"list",
		"List returns every record that the query selects exactly once, page by page, in a stable order", list},
	{"list while changing",
		"List returns a record that stays exactly once, even if other records come and go between pages",
		listWhileChanging},
	{"count", "Count counts the records that the query selects, and may stop at the limit", count},
	{"newer than", "Count and List select records by how long ago they were created, with NewerThan", latest},
	{"wait",
		"Wait returns nil once the record no longer has the version seen, and the context's error if the context ends first",
		wait},
	{"wrappers", "stet.As finds every ability of the store through a wrapper", wrappers},
}

// ability returns an ability of the store, or skips the law if the store does not have it.
func ability[T any](t testing.TB, x *bench) T {
	t.Helper()
	a, ok := stet.As[T](x.store)
	if !ok {
		t.Skipf("the store has no %T", (*T)(nil))
	}
	return a
}

func list(t testing.TB, x *bench) {
	l := ability[stet.Lister](t, x)
	const n = 57
	for i := range n {
		r := running(key(i))
		r.Route = []string{"a", "b"}[i%2]
		r.Scope = []stet.Scope{"s", "t", "s\x00"}[i%3]
		made := x.create(r)
		if i%10 == 0 {
			x.replace(made.Head, nil, func(h *stet.Head) { completed(h); h.Status = 200 + 300*(i/10%2) })
		}
	}
	x.pass(2 * time.Second)
	young := running("young")
	young.Scope = "s"
	x.create(young)
	for _, c := range []struct {
		name string
		q    stet.Query
		want int
	}{
		{"older", stet.Query{OlderThan: 1500 * time.Millisecond, Limit: 10}, n}, // first, while young is young
		{"all", stet.Query{Limit: 10}, n + 1},
		{"one page", stet.Query{Limit: 1000}, n + 1},
		{"default limit", stet.Query{}, n + 1},
		{"scope", stet.Query{Scope: "t", Limit: 4}, 19},
		{"route", stet.Query{Route: "b", Limit: 4}, 28},
		{"state", stet.Query{States: []stet.State{stet.Completed}, Limit: 4}, 6},
		{"failed", stet.Query{States: []stet.State{stet.Completed}, Failed: true, Limit: 1}, 3},
		{"succeeded", stet.Query{States: []stet.State{stet.Completed}, Succeeded: true, Limit: 2}, 3},
		{"none", stet.Query{Scope: "nobody"}, 0},
	} {
		seen := map[stet.ID]bool{}
		for pages := 0; ; pages++ {
			heads, next, err := l.List(x.ctx, c.q)
			if err != nil || pages > n {
				t.Fatalf("%s: %v on page %d", c.name, err, pages)
			}
			if c.q.Limit > 0 && len(heads) > c.q.Limit {
				t.Errorf("%s: a page of %d, limit %d", c.name, len(heads), c.q.Limit)
			}
			for _, h := range heads {
				if c.q.OlderThan > 0 && h.ID == young.ID && h.AsOf.Sub(h.CreatedAt) >= c.q.OlderThan {
					continue // the pages before took so long that it is young no more
				}
				if seen[h.ID] {
					t.Errorf("%s: a record is on two pages", c.name)
				}
				seen[h.ID] = true
			}
			if c.q.After = next; next == "" {
				break
			}
		}
		if len(seen) != c.want {
			t.Errorf("%s: %d records, want %d", c.name, len(seen), c.want)
		}
	}
	if _, _, err := l.List(x.ctx, stet.Query{After: "no cursor \x00"}); err == nil {
		t.Error("a cursor that was never given out was taken")
	}
}

func listWhileChanging(t testing.TB, x *bench) {
	l := ability[stet.Lister](t, x)
	stay := map[stet.ID]int{}
	for i := range 40 {
		stay[x.create(running("stay-"+key(i))).ID] = 0
	}
	q := stet.Query{Limit: 7}
	for page := 0; ; page++ {
		heads, next, err := l.List(x.ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range heads {
			if _, ok := stay[h.ID]; ok {
				stay[h.ID]++
			}
		}
		made := x.create(running(string(rune('a'+page)) + "-comes"))
		if page%2 == 1 {
			if err := x.store.Delete(x.ctx, made.ID, made.Version); err != nil {
				t.Fatal(err)
			}
		}
		if q.After = next; next == "" {
			break
		}
	}
	for _, n := range stay {
		if n != 1 {
			t.Fatalf("a record that stayed was listed %d times", n)
		}
	}
}

func count(t testing.TB, x *bench) {
	c := ability[stet.Counter](t, x)
	for i := range 20 {
		r := running(key(i))
		r.Scope = []stet.Scope{"s", "t"}[i%2]
		made := x.create(r)
		if i < 5 {
			x.replace(made.Head, nil, completed)
		}
	}
	gone := x.create(running("gone"))
	if err := x.store.Delete(x.ctx, gone.ID, gone.Version); err != nil {
		t.Fatal(err)
	}
	for _, q := range []struct {
		q    stet.Query
		want int
	}{{stet.Query{}, 20}, {stet.Query{States: []stet.State{stet.Completed}}, 5}, {stet.Query{Scope: "s"}, 10},
		{stet.Query{Scope: "t", States: []stet.State{stet.Running}}, 8}, {stet.Query{Scope: "u"}, 0}} {
		if n, err := c.Count(x.ctx, q.q); err != nil || n != q.want {
			t.Errorf("Count(%+v): %d, %v; want %d", q.q, n, err, q.want)
		}
		q.q.Limit = 3
		if n, err := c.Count(x.ctx, q.q); err != nil || n < min(q.want, 3) {
			t.Errorf("Count(%+v): %d, %v; want at least %d", q.q, n, err, min(q.want, 3))
		}
	}
}

// latest checks NewerThan, alone and together with OlderThan.
func latest(t testing.TB, x *bench) {
	c := ability[stet.Counter](t, x)
	old := x.create(running("old"))
	x.pass(2 * time.Second)
	for i := range 6 {
		r := running(key(i))
		r.Scope = []stet.Scope{"s", "t"}[i%2]
		made := x.create(r)
		if i < 2 {
			x.replace(made.Head, nil, completed)
		}
	}
	const young = time.Hour - 1 // stands for an age between those of the old one and of the others
	now := func(q stet.Query) stet.Query {
		seen := x.get(old.ID)
		between := seen.AsOf.Sub(seen.CreatedAt) - time.Second
		if q.NewerThan == young {
			q.NewerThan = between
		}
		if q.OlderThan == young {
			q.OlderThan = between
		}
		return q
	}
	for _, q := range []struct {
		q    stet.Query
		want int
	}{
		{stet.Query{NewerThan: time.Hour, OlderThan: young}, 1},
		{stet.Query{NewerThan: time.Hour}, 7},
		{stet.Query{NewerThan: young}, 6},
		{stet.Query{NewerThan: young, Scope: "t"}, 3},
		{stet.Query{NewerThan: young, States: []stet.State{stet.Completed}}, 2},
		{stet.Query{NewerThan: young, Route: "charges"}, 6},
		{stet.Query{NewerThan: young, Route: "other"}, 0},
		{stet.Query{NewerThan: young, Path: "/v1/charges"}, 6},
		{stet.Query{NewerThan: young, Path: "/v1/charges", Scope: "t"}, 3},
		{stet.Query{NewerThan: young, Path: "/other"}, 0},
		{stet.Query{NewerThan: time.Hour, OlderThan: time.Minute}, 0},
		{stet.Query{NewerThan: young, OlderThan: time.Minute, Scope: "t"}, 0},
	} {
		if n, err := c.Count(x.ctx, now(q.q)); err != nil || n != q.want {
			t.Errorf("Count(%+v): %d, %v; want %d", q.q, n, err, q.want)
		}
		if l, ok := stet.As[stet.Lister](x.store); ok {
			if n := listed(t, x, l, now(q.q)); n != q.want {
				t.Errorf("List(%+v): %d; want %d", q.q, n, q.want)
			}
		}
		q.q.Limit = 2
		if n, err := c.Count(x.ctx, now(q.q)); err != nil || n < min(q.want, 2) {
			t.Errorf("Count(%+v): %d, %v; want at least %d", q.q, n, err, min(q.want, 2))
		}
	}
}

func wait(t testing.TB, x *bench) {
	w := ability[stet.Waiter](t, x)
	made := x.create(running("k"))
	if err := w.Wait(x.ctx, made.ID, draw()); err != nil {
		t.Fatalf("another version than the one seen: %v", err)
	}
	if err := w.Wait(x.ctx, stet.ID{Scope: "s", Key: "absent"}, draw()); err != nil {
		t.Fatalf("an absent record: %v", err)
	}
	ctx, cancel := context.WithTimeout(x.ctx, 20*time.Millisecond)
	defer cancel()
	for { // it may wake for nothing
		over := ctx.Err() != nil
		err := w.Wait(ctx, made.ID, made.Version)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("waiting for nothing: %v", err)
		}
		if err == nil && over {
			t.Fatal("woken by nothing, after the end of the context")
		}
		if err != nil {
			break
		}
	}
	head := made.Head
	for range 20 { // each time those who wait should be waiting when the record changes
		head = wake(t, x, w, head)
	}
	if err := x.store.Delete(x.ctx, head.ID, head.Version); err != nil {
		t.Fatal(err)
	}
}

// wake replaces a record for which several callers wait, and returns its new head.
func wake(t testing.TB, x *bench, w stet.Waiter, seen stet.Head) stet.Head {
	ctx, cancel := context.WithTimeout(x.ctx, x.patience)
	defer cancel()
	const waiters = 3
	var wg, ready sync.WaitGroup
	ready.Add(waiters)
	for range waiters {
		wg.Go(func() {
			ready.Done()
			for { // it may wake for nothing
				err := w.Wait(ctx, seen.ID, seen.Version)
				got, gerr := x.store.Get(x.ctx, seen.ID)
				if err != nil || gerr != nil {
					t.Errorf("woken with %v; Get: %v", err, gerr)
					return
				}
				if got.Version != seen.Version {
					return
				}
			}
		})
	}
	ready.Wait()
	for range 100 {
		runtime.Gosched()
	}
	next := x.replace(seen, nil, func(*stet.Head) {})
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return next
}

func wrappers(t testing.TB, x *bench) {
	inner := faulty.New(x.store, 1)
	wrapped := faulty.New(inner, 2)
	found[stet.Lister](t, x.store, wrapped)
	found[stet.Counter](t, x.store, wrapped)
	found[stet.Waiter](t, x.store, wrapped)
	found[stet.Finder](t, x.store, wrapped)
	found[stet.Historian](t, x.store, wrapped)
	found[stet.Reaper](t, x.store, wrapped)
	if !found[stet.Binder](t, x.store, wrapped) {
		return
	}
	x.store = wrapped // bound through the wrappers it fails as they do
	made := x.create(running("k"))
	tx := x.begin()
	inner.Down()
	if _, err := tx.store.Get(x.ctx, made.ID); !errors.Is(err, faulty.ErrFault) {
		t.Errorf("Get in a transaction of a store that is down: %v", err)
	}
	inner.Up()
	tx.get(made.ID)
}

// found reports whether the store has an ability, and checks that wrappers show it, too.
func found[T any](t testing.TB, store, wrapped stet.Store) bool {
	t.Helper()
	_, direct := stet.As[T](store)
	if _, through := stet.As[T](wrapped); direct != through {
		t.Errorf("%T: found directly %v, through wrappers %v", (*T)(nil), direct, through)
	}
	return direct
}
