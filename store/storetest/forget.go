package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

var forgetLaws = []law{
	{"history trimmed",
		"Trim removes up to the limit of the entries that are old enough, the oldest first, for all handles, and no other",
		historyTrimmed},
	{"history erased",
		"Erase takes what names their subject from up to the limit of the entries that are selected, and leaves all else, in its place",
		historyErased},
	{"forgotten while paging",
		"a walk through the history goes on across Trim and Erase, without missing or repeating an entry that stays",
		forgottenWhilePaging},
	{"forgotten and reopened", "after Close and Open, a durable store has what Trim and Erase left, and adds to it", forgottenReopened},
}

// trim removes entries until none is left that is old enough.
func (x *bench) trim(age time.Duration, limit int, want ...int) {
	x.t.Helper()
	f := ability[stet.Forgetter](x.t, x)
	for i, w := range want {
		if n, err := f.Trim(x.ctx, age, limit); n != w || err != nil {
			x.t.Fatalf("call %d of Trim removed %d entries, %v; want %d", i, n, err, w)
		}
	}
}

func (x *bench) erase(q stet.HistoryQuery, want ...int) {
	x.t.Helper()
	f := ability[stet.Forgetter](x.t, x)
	for i, w := range want {
		if n, err := f.Erase(x.ctx, q); n != w || err != nil {
			x.t.Fatalf("call %d of Erase erased %d entries, %v; want %d", i, n, err, w)
		}
	}
}

// told adds an entry about a key, with what Erase has to take away.
func (x *bench) told(scope stet.Scope, key string) stet.Change {
	x.t.Helper()
	return x.append(stet.Change{ID: stet.ID{Scope: scope, Key: stet.Key(key)}, Tag: "k_" + string(scope) + key, Attempt: 3,
		Note: stet.Note{Who: "w\x00é", Why: "for " + key, Evidence: "\xff of " + key, Notice: "msg " + key, Action: "re\x00veal"}})
}

func historyTrimmed(t testing.TB, x *bench) { // S15
	ability[stet.Forgetter](t, x)
	x.trim(0, 10, 0)
	made := x.create(running("k"))
	_, noted := x.note(made.Head, stet.Note{Who: "a", Why: "its record stays"}, unknown)
	for range 6 {
		x.told("s", "k")
	}
	const age = 2 * time.Second // what is young stays so until it is counted
	x.pass(age + 100*time.Millisecond)
	var young []stet.Change // newest first
	for i := range 3 {
		young = append([]stet.Change{x.told("s", fmt.Sprint("young", i))}, young...)
	}
	x.trim(time.Hour, 10, 0)
	x.trim(age, 0, 0)
	x.trim(age, -1, 0)
	x.trim(age, 3, 3, 3)
	if left := whole(t, x, x.store, stet.HistoryQuery{}); len(left) != 4 || left[3].At.Before(noted.At) {
		t.Errorf("%d entries are left, want the 4 newest", len(left))
	}
	x.trim(age, 3, 1, 0)
	x.entries(stet.HistoryQuery{}, young...)
	x.entries(stet.HistoryQuery{ID: made.ID})
	if got := x.get(made.ID); got.Note == nil || got.Note.Why != noted.Note.Why {
		t.Errorf("the record's own note is %v", got.Note)
	}
	if x.Shared {
		if got := whole(t, x, x.open(), stet.HistoryQuery{}); len(got) != len(young) {
			t.Errorf("another handle finds %d entries, want %d", len(got), len(young))
		}
	}
	x.pass(100 * time.Millisecond)
	x.trim(50*time.Millisecond, 3, 3, 0)
	x.entries(stet.HistoryQuery{})
	last := x.told("s", "after all of them")
	x.entries(stet.HistoryQuery{}, last)
	ended, end := context.WithCancel(x.ctx)
	end()
	f, _ := stet.As[stet.Forgetter](x.store)
	if n, err := f.Trim(ended, 0, 10); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("Trim with a context that is over: %d, %v", n, err)
	}
	x.entries(stet.HistoryQuery{}, last)
}

func historyErased(t testing.TB, x *bench) { // N10
	f := ability[stet.Forgetter](t, x)
	r := running("k\x00\xff")
	r.Scope, r.Tag = "subject", "k_0123456789abcdef"
	made := x.create(r)
	_, noted := x.note(made.Head, stet.Note{Who: "a", Why: "it was theirs", Evidence: "subject"}, unknown)
	all := []stet.Change{noted} // newest first
	about := func(scope stet.Scope, key string) { all = append([]stet.Change{x.told(scope, key)}, all...) }
	about("subject", "a")
	about("subject", "b")
	about("subjec", "a") // whose names are part of others'
	about("subject2", "a")
	about("s", "ubject")
	about("subject", "a")
	all = append([]stet.Change{x.append(stet.Change{Note: stet.Note{Who: "w", Why: "about no record", Action: "login-refused"}})}, all...)
	erased := func(of func(c *stet.Change) bool) (n int) {
		for i := range all {
			if of(&all[i]) {
				all[i] = all[i].Erased()
				n++
			}
		}
		return n
	}
	check := func(name string, q stet.HistoryQuery, limit int, of func(c *stet.Change) bool, want ...int) {
		t.Helper()
		q.Limit = limit
		x.erase(q, want...)
		n, sum := erased(of), 0
		for _, w := range want {
			sum += w
		}
		if n != sum {
			t.Fatalf("%s: %d entries, want %d", name, sum, n)
		}
		x.entries(stet.HistoryQuery{}, all...)
	}
	if n, err := f.Erase(x.ctx, stet.HistoryQuery{Who: "w\x00é", Limit: 10}); n != 0 || err == nil {
		t.Errorf("of nobody, %d entries were erased, %v", n, err)
	}
	id := stet.ID{Scope: "subject", Key: "a"}
	check("another's", stet.HistoryQuery{Scope: "sub"}, 10, func(c *stet.Change) bool { return false }, 0)
	check("both of two", stet.HistoryQuery{ID: id, Who: "somebody else"}, 10, func(*stet.Change) bool { return false }, 0)
	check("by tag", stet.HistoryQuery{Tag: "k_subjectb"}, 10, func(c *stet.Change) bool { return c.Tag == "k_subjectb" }, 1, 0)
	check("by id", stet.HistoryQuery{ID: id}, 1, func(c *stet.Change) bool { return c.ID == id }, 1, 1, 0)
	about("subject", "later")
	check("by scope", stet.HistoryQuery{Scope: "subject"}, 2, func(c *stet.Change) bool { return c.ID.Scope == "subject" }, 2, 0)
	x.entries(stet.HistoryQuery{Scope: "subject"})
	x.entries(stet.HistoryQuery{ID: made.ID})
	x.entries(stet.HistoryQuery{Tag: "k_subjecta"})
	if got := x.get(made.ID); got.Note == nil || got.Note.Evidence != "subject" {
		t.Error("the record itself was changed")
	}
	if x.Shared {
		if got := whole(t, x, x.open(), stet.HistoryQuery{}); len(got) != len(all) || got[len(got)-1].Note.Why != stet.WhyErased {
			t.Errorf("another handle finds %d entries, want %d", len(got), len(all))
		}
	}
}

func forgottenWhilePaging(t testing.TB, x *bench) { // S15, N10
	l := ability[stet.Historian](t, x)
	ability[stet.Forgetter](t, x)
	const old, young, age = 12, 12, 2 * time.Second // what is young stays so until page 1
	for i := range old {
		x.told("old", fmt.Sprint(i))
	}
	x.pass(age + 100*time.Millisecond)
	var want []stet.Change // newest first
	for i := range young {
		want = append([]stet.Change{x.told([]stet.Scope{"stays", "subject"}[i%2], fmt.Sprint(i))}, want...)
	}
	q := stet.HistoryQuery{Limit: 5}
	var got []stet.Change
	for page := 0; ; page++ {
		changes, next, err := l.History(x.ctx, q)
		if err != nil || page > old+young {
			t.Fatalf("page %d: %v", page, err)
		}
		got = append(got, changes...)
		if q.After = next; next == "" {
			break
		}
		switch page {
		case 0: // among what was read, and what is to come
			x.erase(stet.HistoryQuery{Scope: "subject", Limit: 100}, young/2)
		case 1: // the rest of what is to come
			x.trim(age, 7, 7, old-7)
		}
		x.told("meanwhile", fmt.Sprint(page))
	}
	if len(got) != len(want) {
		t.Fatalf("the walk shows %d entries, want the %d that were young", len(got), len(want))
	}
	for i, c := range got {
		w := want[i]
		if i >= 5 && w.ID.Scope == "subject" {
			w = w.Erased()
		}
		if w.At = c.At; c != w {
			t.Errorf("entry %d is %s; want %s", i, entry(c), entry(w))
		}
	}
	// A cursor from where nothing is left ends a walk.
	_, before, err := l.History(x.ctx, stet.HistoryQuery{Limit: 20})
	x.pass(100 * time.Millisecond)
	x.trim(50*time.Millisecond, 1000, young+2)
	x.told("last", "k")
	if changes, next, err2 := l.History(x.ctx, stet.HistoryQuery{After: before, Limit: 5}); before != "" && (err2 != nil || len(changes) > 1 || next != "") {
		t.Errorf("from a cursor whose entries are gone: %d entries, %q, %v, %v", len(changes), next, err, err2)
	}
}

func forgottenReopened(t testing.TB, x *bench) { // S15, N10
	ability[stet.Forgetter](t, x)
	if !x.Durable {
		t.Skip("the store does not promise to outlive its process")
	}
	x.dir += "/own"
	x.store = x.Open(t, x.dir, x.clock.Now)
	x.told("old", "k")
	x.pass(2100 * time.Millisecond)
	first, second := x.told("subject", "k"), x.told("stays", "k")
	x.trim(2*time.Second, 10, 1)
	x.erase(stet.HistoryQuery{Scope: "subject"}, 1)
	closeStore(t, x.store)
	x.store = x.open()
	x.entries(stet.HistoryQuery{}, second, first.Erased())
	third := x.told("stays", "k")
	x.entries(stet.HistoryQuery{}, third, second, first.Erased())
}
