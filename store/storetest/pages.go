package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

var pageLaws = []law{
	{"due pages",
		"paging through Due returns every due record once, earliest first, in pages no larger than the limit",
		duePages},
	{"due in one instant",
		"if many records fall due at the same instant, paging through Due returns each of them exactly once",
		dueInOneInstant},
	{"due while changing",
		"Due returns each record that stays due exactly once, even if others come, change or go between pages",
		dueWhileChanging},
	{"due past damage", "Due leaves out records that cannot be read, and continues past them", duePastDamage},
	{"due cursor", "Due returns an error for a cursor that it never issued", dueCursor},
}

// walk follows the cursor of Due to its end. Between two pages, it calls between with all records
// seen so far, unless between is nil.
func (x *bench) walk(q stet.Query, between func(page int, seen []stet.Head)) (seen []stet.Head) {
	x.t.Helper()
	const most = 1000
	for page := range most {
		heads, next, err := x.store.Due(x.ctx, q)
		if err != nil {
			x.t.Fatalf("page %d of Due: %v", page, err)
		}
		if len(heads) > q.Bound() {
			x.t.Errorf("page %d of Due has %d records; the limit is %d", page, len(heads), q.Bound())
		}
		seen = append(seen, heads...)
		if q.After = next; next == "" {
			return seen
		}
		if between != nil {
			between(page, seen)
		}
	}
	x.t.Fatalf("a walk of Due has no end after %d pages", most)
	return nil
}

// times counts how often a walk returned each record, and checks their order.
func (x *bench) times(seen []stet.Head) map[stet.ID]int {
	x.t.Helper()
	n := map[stet.ID]int{}
	for i, h := range seen {
		n[h.ID]++
		if !h.Over() {
			x.t.Errorf("place %d of the walk falls due at %v, and was read at %v", i, h.DueAt, h.AsOf)
		}
		if i > 0 && h.DueAt.Before(seen[i-1].DueAt) {
			x.t.Errorf("place %d of the walk falls due at %v, and the one before it at %v", i, h.DueAt, seen[i-1].DueAt)
		}
	}
	return n
}

// once checks that a walk returned each of want exactly once, and no other record.
func (x *bench) once(what string, seen []stet.Head, want []stet.ID) {
	x.t.Helper()
	n := x.times(seen)
	for _, id := range want {
		if n[id] != 1 {
			x.t.Errorf("%s: record %q was seen %d times", what, string(id.Key), n[id])
		}
	}
	if len(n) != len(want) {
		x.t.Errorf("%s: %d records were seen, want %d", what, len(n), len(want))
	}
}

// duePages makes two walks of each kind. Records fall due in another order than they were created,
// some at the same instant.
func duePages(t testing.TB, x *bench) { // A2, A07 to A09
	const n = stet.DefaultLimit + 30
	states := []stet.State{stet.Running, stet.Unknown, stet.Completed, stet.Retryable, stet.Expired}
	made := make([]stet.Head, n)
	for i := range made {
		r := running(key(i))
		r.State, r.Scope, r.Route = states[i%len(states)], []stet.Scope{"s", "t"}[i%2], []string{"a", "b", "c"}[i%3]
		r.DueIn = time.Duration((i*37)%n/3) * time.Millisecond
		made[i] = x.create(r).Head
	}
	far := running("far")
	far.DueIn = time.Hour
	x.create(far)
	x.pass(100 * time.Millisecond)
	for _, q := range []stet.Query{
		{}, {Limit: 1}, {Limit: 7}, {Limit: n - 1}, {Limit: n}, {Limit: n + 1}, {Limit: 5000}, {Limit: -1},
		{States: []stet.State{stet.Unknown}, Limit: 4}, {States: []stet.State{stet.Running, stet.Expired}, Limit: 5},
		{Scope: "t", Limit: 6}, {Route: "b", Limit: 6}, {Scope: "s", Route: "c", States: states, Limit: 2},
		{States: []stet.State{stet.Unknown}, Scope: "nobody"},
	} {
		var want []stet.ID
		for _, h := range made {
			if q.Matches(&h) {
				want = append(want, h.ID)
			}
		}
		x.once("a walk", x.walk(q, nil), want)
		if t.Failed() {
			t.Fatalf("by the query %+v", q)
		}
	}
}

func dueInOneInstant(t testing.TB, x *bench) {
	if x.ServerClock {
		t.Skip("the clock is the server's: nothing says that two records fall due in one instant")
	}
	var want []stet.ID
	made := make([]stet.Head, 60)
	for i := range made {
		r := running(key(i))
		r.State, r.DueIn = []stet.State{stet.Running, stet.Unknown, stet.Completed}[i%3], time.Second
		made[i] = x.create(r).Head
		want = append(want, made[i].ID)
	}
	x.pass(time.Second)
	for _, limit := range []int{1, 7, 60, 100} {
		x.once("ties", x.walk(stet.Query{Limit: limit}, nil), want)
	}
	left := map[stet.ID]bool{} // what others took away from among them
	seen := x.walk(stet.Query{Limit: 7}, func(page int, seen []stet.Head) {
		for i, h := range made {
			if id := func(s stet.Head) bool { return s.ID == h.ID }; left[h.ID] || slices.ContainsFunc(seen, id) {
				continue
			}
			if left[h.ID] = true; i%2 == 0 {
				x.replace(h, nil, func(h *stet.Head) { h.DueIn = time.Hour })
			} else if err := x.store.Delete(x.ctx, h.ID, h.Version); err != nil {
				t.Fatal(err)
			}
			return
		}
	})
	x.once("ties of which some went", seen, slices.DeleteFunc(want, func(id stet.ID) bool { return left[id] }))
}

// dueWhileChanging checks what a walk must not lose: a record that stays is returned once, and one
// that is moved on before it was returned, at least once. Other records may be returned or not.
func dueWhileChanging(t testing.TB, x *bench) {
	const n = 90
	made := make([]stet.Head, n)
	for i := range made {
		r := running("stays-" + key(i))
		if r.DueIn = 0; !x.ServerClock {
			r.DueIn = time.Duration(i) * time.Millisecond
		}
		made[i] = x.create(r).Head
	}
	x.pass(100 * time.Millisecond)
	changed, moved := map[stet.ID]bool{}, []stet.ID{}
	// next is a record that was not changed: from the beginning, if it was seen, or else from the
	// end.
	next := func(seen []stet.Head, was bool) *stet.Head {
		for i := range made {
			h := &made[i]
			if !was {
				h = &made[n-1-i]
			}
			if !changed[h.ID] && was == slices.ContainsFunc(seen, func(s stet.Head) bool { return s.ID == h.ID }) {
				changed[h.ID] = true
				return h
			}
		}
		t.Fatal("there is nothing left to change")
		return nil
	}
	seen := x.walk(stet.Query{Limit: 7}, func(page int, seen []stet.Head) {
		if page >= 6 {
			return
		}
		for _, in := range []time.Duration{0, time.Hour, stet.Never} {
			r := running("comes-" + key(page) + in.String())
			r.DueIn = in
			x.create(r)
		}
		for _, was := range []bool{true, false} {
			x.replace(*next(seen, was), nil, func(h *stet.Head) { h.DueIn = time.Hour })
			gone := next(seen, was)
			if err := x.store.Delete(x.ctx, gone.ID, gone.Version); err != nil {
				t.Fatal(err)
			}
			h := next(seen, was)
			x.replace(*h, nil, func(h *stet.Head) { h.State, h.DueIn = stet.Unknown, 0 })
			if !was {
				moved = append(moved, h.ID)
			}
		}
		if !x.ServerClock {
			x.pass(time.Millisecond)
		}
	})
	times := x.times(seen)
	for _, h := range made {
		if !changed[h.ID] && times[h.ID] != 1 {
			t.Errorf("a record that nobody changed was seen %d times", times[h.ID])
		}
	}
	for _, id := range moved {
		if times[id] == 0 {
			t.Error("a record that was due all the time, and moved on before it was seen, was not seen at all")
		}
	}
}

func duePastDamage(t testing.TB, x *bench) { // A10: one bad record never stops a walk over others
	if x.Tamper == nil {
		t.Skip("nobody else can reach what is stored")
	}
	const n = 40
	var want []stet.ID
	var bad []stet.ID
	for i := range n {
		r := running(key(i))
		if r.DueIn = 0; !x.ServerClock {
			r.DueIn = time.Duration(i) * time.Millisecond
		}
		made := x.create(r)
		if i == 0 || i >= 5 && i < 20 || i == n-1 {
			bad = append(bad, made.ID)
		} else {
			want = append(want, made.ID)
		}
	}
	for _, id := range bad {
		x.Tamper(t, x.opened, id, Tampering{Format: true})
	}
	x.pass(100 * time.Millisecond)
	for _, q := range []stet.Query{{Limit: 4}, {Limit: 1}, {}, {Limit: 3, States: []stet.State{stet.Running, stet.Unknown}}, {Scope: "tenant", Limit: 15}} {
		x.once("past damage", x.walk(q, nil), want)
	}
}

func dueCursor(t testing.TB, x *bench) {
	for _, after := range []string{"no cursor \x00", " ", ".", "-", "1.", "x.1"} {
		if _, _, err := x.store.Due(x.ctx, stet.Query{After: after}); err == nil {
			t.Errorf("Due took the cursor %q, which was never given out", after)
		}
	}
}
