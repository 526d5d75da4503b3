package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

var historyLaws = []law{
	{"history",
		"each Replace with a Note adds exactly one entry with the change and the store's time; no other verb adds one",
		history},
	{"history outlives",
		"the history of a record remains after its deletion, and a new record with the same ID continues it",
		historyOutlives},
	{"history pages",
		"History returns the entries of all records or of one, newest first, each once, even if entries are added meanwhile",
		historyPages},
	{"history appended",
		"Append adds an entry with the store's time and changes no record, even if the entry's record does not exist",
		historyAppended},
	{"history filters",
		"History selects entries by tag, scope and who, alone and together, each entry once", historyFilters},
	{"rare history",
		"following the cursor of History finds rare entries among many, for each filter and for two together",
		historyLookedThrough},
	{"history of concurrent writers",
		"of concurrent writers, only those that changed the record are in its history, in the order of their writes",
		historyOfRacers},
	{"history reopened",
		"after Close and Open, a durable store still has its history and finds records by their downstream names",
		reopened},
}

// whole returns the complete history that q selects, page by page.
func whole(t testing.TB, x *bench, s stet.Store, q stet.HistoryQuery) (all []stet.Change) {
	t.Helper()
	h, ok := stet.As[stet.Historian](s)
	if !ok {
		t.Fatal("the store has no history")
	}
	for range 1000 {
		page, next, err := h.History(x.ctx, q)
		if err != nil {
			t.Fatalf("History: %v", err)
		}
		all = append(all, page...)
		if q.After = next; next == "" {
			return all
		}
	}
	t.Fatal("the history has no end")
	return nil
}

// entries checks the complete history, newest first.
func (x *bench) entries(q stet.HistoryQuery, want ...stet.Change) {
	x.t.Helper()
	got := whole(x.t, x, x.store, q)
	if len(got) != len(want) {
		x.t.Fatalf("the history has %d entries, want %d", len(got), len(want))
	}
	for i, c := range got {
		if c.At.Location() != time.UTC || !c.At.Equal(want[i].At) {
			x.t.Errorf("entry %d is of %v, want %v", i, c.At, want[i].At)
		}
		c.At = want[i].At
		if c != want[i] {
			x.t.Errorf("entry %d is %s; want %s", i, entry(c), entry(want[i]))
		}
	}
}

// entry prints a change. Its parts may contain any bytes.
func entry(c stet.Change) string {
	return fmt.Sprintf("%q %q from %v to %v, attempt %d, %q", string(c.ID.Scope)+" "+string(c.ID.Key), c.Tag, c.From, c.To, c.Attempt, c.Note)
}

// note replaces the record of prev with a note. It returns the new head and the entry that the
// history must have.
func (x *bench) note(prev stet.Head, n stet.Note, change func(h *stet.Head)) (stet.Head, stet.Change) {
	x.t.Helper()
	next := x.replace(prev, nil, func(h *stet.Head) { change(h); h.Note = &n })
	return next, stet.Change{ID: prev.ID, Tag: next.Tag, From: prev.State, To: next.State, Attempt: next.Attempt, At: next.UpdatedAt, Note: n}
}

func unknown(h *stet.Head) { h.State, h.Cause = stet.Unknown, "lease-lapsed" }

func history(t testing.TB, x *bench) {
	ability[stet.Historian](t, x)
	x.entries(stet.HistoryQuery{})
	r := running("odd\xff\x00é")
	r.Note, r.Tag = &stet.Note{Who: "nobody"}, "k_0123456789abcdef" // no change: there was nothing before
	made := x.create(r)
	x.entries(stet.HistoryQuery{})

	x.pass(20 * time.Millisecond)
	h, first := x.note(made.Head, stet.Note{Who: "ops@höst", Why: "asked\nthe provider", Evidence: "\xff\x00'\"%\\\r\n{}", Notice: "msg_1\x00\xff", Action: "\xfeact\x00"}, func(h *stet.Head) { unknown(h); h.Attempt = 7 })
	x.entries(stet.HistoryQuery{}, first)
	if shown := x.get(r.ID).Note; shown == nil || *shown != first.Note {
		t.Errorf("the record's own note is %+v", shown)
	}

	h = x.replace(h, nil, func(h *stet.Head) { h.Note = nil })
	x.entries(stet.HistoryQuery{}, first)

	refused := h
	refused.Version, refused.Note, refused.DueIn = draw(), &stet.Note{Who: "late"}, 0
	if _, err := x.store.Replace(x.ctx, made.Version, refused, nil); !errors.Is(err, stet.ErrStale) {
		t.Fatalf("Replace of a stale version: %v", err)
	}
	refused.Key = "absent"
	if _, err := x.store.Replace(x.ctx, h.Version, refused, nil); !errors.Is(err, stet.ErrNotFound) {
		t.Fatalf("Replace of what is not there: %v", err)
	}
	x.entries(stet.HistoryQuery{}, first)

	x.pass(20 * time.Millisecond)
	h, second := x.note(h, stet.Note{}, completed) // an empty note is one
	h, third := x.note(h, first.Note, completed)   // and a change may change nothing else
	_ = h
	x.entries(stet.HistoryQuery{}, third, second, first)
	if x.Shared {
		if got := whole(t, x, x.open(), stet.HistoryQuery{}); len(got) != 3 {
			t.Errorf("another handle finds %d entries, want 3", len(got))
		}
	}
}

func historyOutlives(t testing.TB, x *bench) { // I9
	ability[stet.Historian](t, x)
	made := x.create(running("k"))
	h, first := x.note(made.Head, stet.Note{Who: "a"}, unknown)
	if err := x.store.Delete(x.ctx, h.ID, h.Version); err != nil {
		t.Fatal(err)
	}
	x.entries(stet.HistoryQuery{}, first)
	x.entries(stet.HistoryQuery{ID: made.ID}, first)
	x.pass(20 * time.Millisecond)
	again := x.create(running("k"))
	x.entries(stet.HistoryQuery{ID: made.ID}, first)
	_, second := x.note(again.Head, stet.Note{Who: "b"}, completed)
	x.entries(stet.HistoryQuery{ID: made.ID}, second, first)
}

func historyPages(t testing.TB, x *bench) {
	l := ability[stet.Historian](t, x)
	const n = stet.DefaultLimit + 7
	ids := []stet.ID{{Scope: "a", Key: "b"}, {Scope: "ab", Key: ""}, {Scope: "", Key: "ab"}} // one no other's
	heads := make([]stet.Head, len(ids))
	for i, id := range ids {
		r := running("")
		r.ID = id
		heads[i] = x.create(r).Head
	}
	var all []stet.Change // newest first
	of := map[stet.ID][]stet.Change{}
	add := func() {
		i := len(all)
		h, c := x.note(heads[i%len(ids)], stet.Note{Who: "w", Why: fmt.Sprint(i)}, func(*stet.Head) {})
		heads[i%len(ids)] = h
		all = append([]stet.Change{c}, all...)
		of[c.ID] = append([]stet.Change{c}, of[c.ID]...)
	}
	for range n {
		add()
	}
	for _, limit := range []int{0, -1, 1, 10, n - 1, n, n + 1, 5000} {
		x.entries(stet.HistoryQuery{Limit: limit}, all...)
		for id, want := range of {
			x.entries(stet.HistoryQuery{ID: id, Limit: limit}, want...)
		}
	}
	x.entries(stet.HistoryQuery{ID: stet.ID{Scope: "a", Key: "nobody"}})
	for _, id := range []stet.ID{{}, ids[1]} {
		want := all
		if (id != stet.ID{}) {
			want = of[id]
		}
		q := stet.HistoryQuery{ID: id, Limit: 9}
		for page := 0; ; page++ {
			got, next, err := l.History(x.ctx, q)
			if err != nil || len(got) != min(9, len(want)) {
				t.Fatalf("page %d: %d entries, %v", page, len(got), err)
			}
			for i, c := range got {
				if c.Note != want[i].Note {
					t.Fatalf("page %d, entry %d is number %s, want %s", page, i, c.Note.Why, want[i].Note.Why)
				}
			}
			want = want[len(got):]
			if (next == "") != (len(want) == 0) {
				t.Fatalf("page %d: the cursor is %q, and %d entries are left", page, next, len(want))
			}
			if next == "" {
				break
			}
			q.After = next
			add()
		}
	}
	if _, _, err := l.History(x.ctx, stet.HistoryQuery{After: "no cursor \x00"}); err == nil {
		t.Error("a cursor that was never given out was taken")
	}
}

// append adds an entry about id, and returns it as it must be read.
func (x *bench) append(c stet.Change) stet.Change {
	x.t.Helper()
	l := ability[stet.Historian](x.t, x)
	if err := l.Append(x.ctx, c); err != nil {
		x.t.Fatalf("Append: %v", err)
	}
	c.From, c.To = 0, 0
	made, _, err := l.History(x.ctx, stet.HistoryQuery{Limit: 1})
	if err != nil || len(made) == 0 {
		x.t.Fatalf("after Append the history has no first entry: %v", err)
	}
	c.At = made[0].At
	return c
}

func historyAppended(t testing.TB, x *bench) { // D02
	ability[stet.Historian](t, x)
	made := x.create(running("odd\xff\x00é"))
	x.pass(20 * time.Millisecond)
	h, noted := x.note(made.Head, stet.Note{Who: "a"}, unknown)
	x.pass(20 * time.Millisecond)
	shown := x.append(stet.Change{ID: h.ID, Tag: "k_0123456789abcdef", Attempt: 7, From: stet.Running, To: stet.Completed, At: time.Unix(1, 0),
		Note: stet.Note{Who: "ops@höst", Why: "asked\n", Evidence: "\xff\x00'\"%\\{}", Notice: "msg\x00", Action: "reveal"}})
	if !shown.At.After(noted.At) {
		t.Errorf("an entry is of %v, and the one before it of %v: it is not by the store's clock", shown.At, noted.At)
	}
	absent := x.append(stet.Change{ID: stet.ID{Scope: "a", Key: "nobody's"}, Note: stet.Note{Who: "a", Action: "probe"}})
	none := x.append(stet.Change{Note: stet.Note{Who: "192.0.2.1:80", Why: "wrong token", Action: "login-refused"}})
	again := x.append(stet.Change{Note: none.Note}) // what happens twice is there twice
	x.entries(stet.HistoryQuery{}, again, none, absent, shown, noted)
	x.entries(stet.HistoryQuery{ID: h.ID}, shown, noted)
	if got := x.get(h.ID); got.Version != h.Version || *got.Note != *h.Note {
		t.Errorf("the record was changed, from version %d to %d", h.Version, got.Version)
	}
	if err := x.store.Delete(x.ctx, h.ID, h.Version); err != nil {
		t.Fatal(err)
	}
	if x.Shared {
		if got := whole(t, x, x.open(), stet.HistoryQuery{}); len(got) != 5 {
			t.Errorf("another handle finds %d entries, want 5", len(got))
		}
	}
	x.entries(stet.HistoryQuery{}, again, none, absent, shown, noted)
	ended, end := context.WithCancel(x.ctx)
	end()
	l, _ := stet.As[stet.Historian](x.store)
	if err := l.Append(ended, stet.Change{Note: stet.Note{Who: "late"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("Append with a context that is over: %v", err)
	}
}

func historyFilters(t testing.TB, x *bench) { // D02
	ability[stet.Historian](t, x)
	scopes, whos := []stet.Scope{"a", "ab", "b\x00\xff"}, []string{"ann", "an", "ann\x00", "Ann"}
	var all []stet.Change // newest first
	for i := range 3 * len(scopes) * len(whos) {
		c := stet.Change{Note: stet.Note{Who: whos[i%len(whos)], Why: fmt.Sprint(i), Action: "note"}}
		if i%7 != 0 { // the others are about no record
			c.ID = stet.ID{Scope: scopes[i%len(scopes)], Key: stet.Key(fmt.Sprint(i % 2))}
			c.Tag = fmt.Sprintf("k_%d%d", i%len(scopes), i%2)
		}
		all = append([]stet.Change{x.append(c)}, all...)
	}
	for _, q := range []stet.HistoryQuery{
		{Tag: "k_01"}, {Tag: "k_0"}, {Tag: "\x00"}, {Scope: "a"}, {Scope: "b\x00\xff"}, {Scope: "b"}, {Who: "ann"}, {Who: "Ann"}, {Who: "nobody"},
		{Scope: "ab", Who: "an"}, {Tag: "k_11", Who: "Ann"}, {Tag: "k_11", Scope: "a"}, {ID: stet.ID{Scope: "a", Key: "1"}, Who: "an"},
		{ID: stet.ID{Scope: "a", Key: "1"}, Tag: "k_01", Scope: "a", Who: "Ann"}, {ID: stet.ID{Scope: "a", Key: "1"}, Scope: "ab"},
	} {
		var want []stet.Change
		for _, c := range all {
			if (q.ID == stet.ID{} || c.ID == q.ID) && (q.Tag == "" || c.Tag == q.Tag) && (q.Scope == "" || c.ID.Scope == q.Scope) &&
				(q.Who == "" || c.Note.Who == q.Who) {
				want = append(want, c)
			}
		}
		for _, limit := range []int{0, 1, 3, len(want)} {
			q.Limit = limit
			x.entries(q, want...)
		}
	}
}

func historyLookedThrough(t testing.TB, x *bench) { // D02
	l := ability[stet.Historian](t, x)
	rare := func(i int) stet.Change {
		return x.append(stet.Change{ID: stet.ID{Scope: "rare", Key: "k"}, Tag: "k_rare", Note: stet.Note{Who: "rare", Why: fmt.Sprint(i), Action: "note"}})
	}
	oldest := x.append(stet.Change{ID: stet.ID{Scope: "s", Key: "many"}, Tag: "k_oldest", Note: stet.Note{Who: "nobody else"}})
	want := []stet.Change{rare(0)}
	const writers, each = 8, 150 // more than a page looks at
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for i := range each {
				c := stet.Change{ID: stet.ID{Scope: "s", Key: "many"}, Tag: "k_many", Note: stet.Note{Who: "many", Why: fmt.Sprint(i), Action: "note"}}
				if i%2 == 0 {
					c.Note.Who = "rare"
				} else {
					c.ID.Scope = "rare"
				}
				if err := l.Append(x.ctx, c); err != nil {
					t.Errorf("Append: %v", err)
				}
			}
		})
	}
	wg.Wait()
	want = []stet.Change{rare(1), want[0]}
	for _, q := range []stet.HistoryQuery{{Tag: "k_rare"}, {ID: want[0].ID}, {Scope: "rare", Who: "rare"}, {Scope: "rare", Who: "rare", Limit: 1},
		{Tag: "k_rare", Who: "rare", Limit: 2}} {
		x.entries(q, want...)
	}
	x.entries(stet.HistoryQuery{Scope: "s", Who: "many"})
	x.entries(stet.HistoryQuery{Tag: "k_oldest", Who: "nobody else"}, oldest)
}

func historyOfRacers(t testing.TB, x *bench) { // I3
	ability[stet.Historian](t, x)
	made := x.create(running("k"))
	const adders, each = 6, 5
	var wg sync.WaitGroup
	for range adders {
		wg.Go(func() {
			for range each {
				if err := add(x.ctx, x.store, made.ID, &stet.Note{Who: "racer"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got := whole(t, x, x.store, stet.HistoryQuery{ID: made.ID})
	if len(got) != adders*each {
		t.Fatalf("%d changes were made, and %d are in the history", adders*each, len(got))
	}
	for i, c := range got { // each adds one to Attempt
		if want := 1 + adders*each - i; c.Attempt != want || i > 0 && c.At.After(got[i-1].At) {
			t.Errorf("entry %d is of attempt %d, want %d, at %v", i, c.Attempt, want, c.At)
		}
	}
}

func reopened(t testing.TB, x *bench) {
	if !x.Durable {
		t.Skip("the store does not promise to outlive its process")
	}
	_, finds := stet.As[stet.Finder](x.store)
	_, remembers := stet.As[stet.Historian](x.store)
	if !finds && !remembers {
		t.Skip("the store finds nothing by name, and has no history")
	}
	open := func() stet.Store { return x.Open(t, x.dir+"/own", x.clock.Now) }
	first := open()
	r := running("k")
	r.DownstreamID = "ch_1"
	made, err := first.Create(x.ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	h := made.Head
	h.Version, h.DueIn, h.Note = draw(), time.Minute, &stet.Note{Who: "w", Evidence: "\xff\x00", Notice: "msg_1"}
	if h, err = first.Replace(x.ctx, made.Version, h, nil); err != nil {
		t.Fatal(err)
	}
	shown := stet.Note{Who: "w", Action: "reveal"}
	if l, ok := stet.As[stet.Historian](first); ok {
		if err := l.Append(x.ctx, stet.Change{ID: h.ID, Note: shown}); err != nil {
			t.Fatal(err)
		}
	}
	closeStore(t, first)
	second := open()
	defer closeStore(t, second)
	if finds {
		f, _ := stet.As[stet.Finder](second)
		if heads, err := f.Find(x.ctx, "", "ch_1"); err != nil || len(heads) != 1 || heads[0].Version != h.Version {
			t.Errorf("after reopening %d records are found by their name (%v), want 1", len(heads), err)
		}
	}
	if remembers {
		got := whole(t, x, second, stet.HistoryQuery{})
		if len(got) != 2 || got[0].Note != shown || got[1].Note != *h.Note || !got[1].At.Equal(h.UpdatedAt) {
			t.Errorf("after reopening the history is %+v, want two entries as they were", got)
		}
	}
}
