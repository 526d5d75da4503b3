package storetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

var filterLaws = []law{
	{"filters",
		"List, Count and Due select what Query.Matches selects, for each filter alone and for all of them together",
		filters},
	{"oldest", "with Oldest, List returns the same records in exactly the reverse order", oldest},
	{"oldest while changing",
		"in either order, List returns a record that stays exactly once, even if others come and go between pages",
		oldestWhileChanging},
	{"list while states change",
		"in either order, List returns each record exactly once, even if the one that a page ends with changes its state before the next",
		listWhileStatesChange},
	{"long list",
		"List returns each record that a filter selects exactly once, also if far more records than a page reads lie between",
		longList},
}

// pages follows the cursor of List to its end. Between two pages, it calls between with all records
// seen so far, unless between is nil.
func (x *bench) pages(l stet.Lister, q stet.Query, between func(page int, seen []stet.Head)) (seen []stet.Head) {
	x.t.Helper()
	const most = 1000
	for page := range most {
		heads, next, err := l.List(x.ctx, q)
		if err != nil {
			x.t.Fatalf("page %d of List: %v", page, err)
		}
		if len(heads) > q.Bound() {
			x.t.Errorf("page %d of List has %d records; the limit is %d", page, len(heads), q.Bound())
		}
		for i := range heads {
			if between == nil && !q.Matches(&heads[i]) {
				x.t.Errorf("List shows a record that %+v does not select", q)
			}
		}
		seen = append(seen, heads...)
		if q.After = next; next == "" {
			return seen
		}
		if between != nil {
			between(page, seen)
		}
	}
	x.t.Fatalf("a list has no end after %d pages", most)
	return nil
}

// lists checks that List returned each of want exactly once, and no other record.
func (x *bench) lists(what string, seen []stet.Head, want []stet.ID) {
	x.t.Helper()
	missing := slices.Clone(want)
	for i := range seen {
		at := slices.Index(missing, seen[i].ID)
		if at < 0 {
			x.t.Errorf("%s: a record is listed that should not be, or twice", what)
			continue
		}
		missing = slices.Delete(missing, at, at+1)
	}
	if len(missing) > 0 {
		x.t.Errorf("%s: %d of %d records are missing", what, len(missing), len(want))
	}
}

func filters(t testing.TB, x *bench) { // D04, D06
	made := make([]stet.Head, 72)
	for i := range made {
		r := tagged(key(i/2), i/3)
		r.Scope = []stet.Scope{"s", "t"}[i%2]
		r.State, r.DueIn = stet.State(i%5+1), 0
		r.Path, r.Method = []string{"/a", "/a/", "/A", "/a\x00\xff"}[i%4], []string{"POST", "PUT", "post"}[i%3]
		r.Cause, r.TraceID = []string{"", "panic", "lease-lapsed"}[i/4%3], []string{"", "0af7", "é\xff\x00", "0AF7"}[i/6%4]
		r.Escalated, r.Status = i%7 < 2, []int{201, 503}[i%2]
		made[i] = x.create(r).Head
	}
	x.pass(time.Millisecond)
	lister, lists := stet.As[stet.Lister](x.store)
	counter, counts := stet.As[stet.Counter](x.store)
	for _, q := range []stet.Query{
		{Tag: nth(3)}, {Tag: nth(99)}, {Tag: "\x00"}, {Tag: nth(7), Scope: "s", Limit: 1}, {Tag: nth(7), Escalated: true},
		{Key: "key-000004"}, {Key: "key-000004", Scope: "s"}, {Key: "KEY-000004"}, {Key: "key-000004", Scope: "u"}, {Key: "\x00\xff", Scope: "s"},
		{Path: "/a"}, {Path: "/a/", Limit: 2}, {Path: "/A"}, {Path: "/a\x00\xff"}, {Path: "/%"}, {Method: "POST"}, {Method: "post", Limit: 5}, {Method: "GET"},
		{Cause: "panic"}, {Cause: "panic", States: []stet.State{stet.Unknown, stet.Running}}, {TraceID: "0af7"}, {TraceID: "é\xff\x00"},
		{Escalated: true}, {Escalated: true, States: []stet.State{stet.Unknown}, Limit: 1}, {Escalated: true, Failed: true},
		{Scope: "t", Path: "/a/", Method: "PUT", Cause: "panic"}, {Scope: "s", Key: "key-000018", Tag: nth(12), Path: "/a", Method: "POST"},
	} {
		var want []stet.ID
		for i := range made {
			if q.Matches(&made[i]) {
				want = append(want, made[i].ID)
			}
		}
		x.once("Due", x.walk(q, nil), want)
		for _, q.Oldest = range []bool{false, true} {
			if lists {
				x.lists("List", x.pages(lister, q, nil), want)
			}
		}
		if c := q; counts {
			c.Limit = len(made)
			if n, err := counter.Count(x.ctx, c); err != nil || n != len(want) {
				t.Errorf("Count: %d, %v; want %d", n, err, len(want))
			}
		}
		if t.Failed() {
			t.Fatalf("by the query %+v", q)
		}
	}
}

func oldest(t testing.TB, x *bench) {
	l := ability[stet.Lister](t, x)
	for i := range 130 {
		r := tagged(key((i*37)%130), i)
		r.Scope, r.Route = []stet.Scope{"s", "t"}[i%2], []string{"a", "b", "c"}[i%3]
		made := x.create(r)
		if i%4 == 0 {
			x.replace(made.Head, nil, completed)
		}
		if !x.ServerClock && i%10 == 0 {
			x.pass(time.Millisecond)
		}
	}
	for _, q := range []stet.Query{
		{}, {Limit: 1}, {Limit: 7}, {Limit: 129}, {Limit: 130}, {Limit: 131}, {Scope: "s", Limit: 6}, {Route: "b", Limit: 4},
		{States: []stet.State{stet.Completed}, Limit: 5}, {Path: "/v1/charges", Limit: 8},
	} {
		forth := x.pages(l, q, nil)
		q.Oldest = true
		back := x.pages(l, q, nil)
		slices.Reverse(back)
		same := func(a, b stet.Head) bool { return a.ID == b.ID }
		if len(forth) == 0 || !slices.EqualFunc(forth, back, same) {
			t.Fatalf("by %+v: a list of %d and one of %d the other way round are not the same", q, len(forth), len(back))
		}
	}
	if _, _, err := l.List(x.ctx, stet.Query{After: "no cursor \x00", Oldest: true}); err == nil {
		t.Error("a cursor that was never given out was taken")
	}
}

func oldestWhileChanging(t testing.TB, x *bench) {
	l := ability[stet.Lister](t, x)
	for _, oldest := range []bool{false, true} {
		run := fmt.Sprint(oldest)
		var stay []stet.ID
		leave := map[stet.ID]stet.Version{}
		for i := range 40 {
			stay = append(stay, x.create(running(run+"-stays-"+key(i))).ID)
			gone := x.create(running(run + "-leaves-" + key(i)))
			leave[gone.ID] = gone.Version
		}
		seen := x.pages(l, stet.Query{Limit: 7, Oldest: oldest, Route: "charges"}, func(page int, seen []stet.Head) {
			if page >= 30 {
				return
			}
			for id, v := range leave { // any one, and every other time the one that the page ended with
				if page%2 == 1 && len(seen) > 0 && seen[len(seen)-1].ID != id {
					continue
				}
				if err := x.store.Delete(x.ctx, id, v); err != nil {
					t.Fatal(err)
				}
				delete(leave, id)
				break
			}
			x.replace(x.get(stay[page]).Head, nil, func(h *stet.Head) { h.DueIn = time.Hour })
			x.create(running(fmt.Sprintf("%s-%x-comes", run, page*7919)))
		})
		seen = slices.DeleteFunc(seen, func(h stet.Head) bool { return !slices.Contains(stay, h.ID) })
		x.lists("a list", seen, stay)
	}
}

// listWhileStatesChange has pages of one record, so that each is at an edge. Half of them change
// their state one way, and half the other.
func listWhileStatesChange(t testing.TB, x *bench) {
	l := ability[stet.Lister](t, x)
	turned := map[stet.State]stet.State{stet.Running: stet.Unknown, stet.Unknown: stet.Running}
	var made []stet.ID
	for i := range 12 {
		r := running(key(i))
		if i%2 == 0 {
			r.State = stet.Unknown
		}
		made = append(made, x.create(r).ID)
	}
	for _, oldest := range []bool{false, true} {
		seen := x.pages(l, stet.Query{Limit: 1, Oldest: oldest}, func(page int, seen []stet.Head) {
			if page >= len(made) || len(seen) == 0 {
				return
			}
			h := x.get(seen[len(seen)-1].ID).Head
			x.replace(h, nil, func(h *stet.Head) { h.State = turned[h.State] })
		})
		x.lists(fmt.Sprintf("a list, oldest %v", oldest), seen, made)
	}
}

// longList spreads a few records that the filters select over more records than a page reads. A
// page then ends where the store stops reading, and the next one must begin there.
func longList(t testing.TB, x *bench) {
	l := ability[stet.Lister](t, x)
	const callers = 64
	every := max(x.Look/30, 20)
	n := x.Look + 600
	var want []stet.ID
	var workers sync.WaitGroup
	for i := range n {
		if i%every == 0 {
			want = append(want, stet.ID{Scope: "s", Key: stet.Key(key(i))})
		}
	}
	for w := range callers {
		workers.Go(func() {
			for i := w; i < n; i += callers {
				r := running(key(i))
				if r.Scope, r.Route = "s", "often"; i%every == 0 {
					r.Route = "seldom"
				}
				if _, err := x.store.Create(x.ctx, r); err != nil {
					t.Errorf("Create: %v", err)
					return
				}
			}
		})
	}
	workers.Wait()
	for _, q := range []stet.Query{{Route: "seldom"}, {Route: "seldom", NewerThan: time.Hour, Limit: 7}} {
		for _, q.Oldest = range []bool{false, true} {
			x.lists(fmt.Sprintf("%+v", q), x.pages(l, q, nil), want)
		}
	}
}
