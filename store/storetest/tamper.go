package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

var tamperLaws = []law{
	{"another format",
		"a record of an unknown format is ErrCorrupt for its own key only, and no write changes it", anotherFormat},
	{"another format among many",
		"if one of many concurrent writes meets a record of an unknown format, only that write is refused",
		formatInCrowd},
	{"another format in a transaction",
		"in a transaction, a record of an unknown format is refused as it is outside, and the transaction stays usable",
		formatInTransaction},
	{"another version",
		"if the stored version is changed from outside, a write with the old version is ErrStale, or ErrCorrupt if a seal covers the version",
		anotherVersion},
	{"instants ahead",
		"if a record has instants ahead of the clock, no later write gives it earlier ones", instantsAhead},
}

// tamper changes a record without the knowledge of the store, or skips the law if that is not
// possible.
func (x *bench) tamper(id stet.ID, with Tampering) {
	x.t.Helper()
	if x.Tamper == nil {
		x.t.Skip("nobody else can reach what is stored")
	}
	x.Tamper(x.t, x.opened, id, with)
}

// refused checks that no verb reads or changes the record made, which has an unknown format.
func (x *bench) refused(made stet.Head) {
	x.t.Helper()
	check := func(verb string, err error) {
		x.t.Helper()
		if !errors.Is(err, stet.ErrCorrupt) {
			x.t.Errorf("%s of a record of another format: %v, want ErrCorrupt", verb, err)
		}
		if _, err := x.store.Get(x.ctx, made.ID); !errors.Is(err, stet.ErrCorrupt) {
			x.t.Errorf("after %s a record of another format is %v, want ErrCorrupt", verb, err)
		}
	}
	next := made
	next.Version, next.DueIn = draw(), time.Minute
	_, err := x.store.Replace(x.ctx, made.Version, next, nil)
	check("Replace", err)
	noted := next
	noted.Version, noted.Note = draw(), &stet.Note{Who: "w"}
	_, err = x.store.Replace(x.ctx, made.Version, noted, &stet.Body{Response: &stet.Response{Status: 201}})
	check("Replace with a body and a note", err)
	again := running(string(made.Key))
	_, err = x.store.Create(x.ctx, again)
	check("Create", err)
	check("Delete", x.store.Delete(x.ctx, made.ID, made.Version))
}

func anotherFormat(t testing.TB, x *bench) { // B09
	other, made := x.create(running("other")), x.create(running("k"))
	x.tamper(made.ID, Tampering{Format: true})
	x.refused(made.Head)
	if l, ok := stet.As[stet.Lister](x.store); ok {
		if heads, next, err := l.List(x.ctx, stet.Query{}); err != nil || next != "" || len(heads) != 1 || heads[0].ID != other.ID {
			t.Errorf("beside a record of another format List shows %d, %v; want 1", len(heads), err)
		}
	}
	if _, ok := stet.As[stet.Historian](x.store); ok {
		x.entries(stet.HistoryQuery{}) // what was refused is no change
	}
	x.replace(other.Head, nil, completed)
}

// formatInCrowd writes from many goroutines, so that a store that groups writes has the damaged
// record in a group with others.
func formatInCrowd(t testing.TB, x *bench) { // B09
	const rounds, crowd = 4, 32
	for round := range rounds {
		heads := make([]stet.Head, crowd)
		for i := range heads {
			heads[i] = x.create(running(fmt.Sprint(round, " ", i))).Head
		}
		bad := heads[crowd/2+1] // one without a note, which goes in a group
		x.tamper(bad.ID, Tampering{Format: true})
		start := make(chan struct{})
		var wg sync.WaitGroup
		together := func(do func()) { wg.Go(func() { <-start; do() }) }
		for i, h := range heads {
			next := h
			next.Version, next.DueIn = draw(), time.Minute
			if i%4 == 0 {
				next.Note = &stet.Note{Who: "w"}
			}
			var b *stet.Body
			if i%3 == 0 {
				b = &stet.Body{Progress: []byte("p")}
			}
			together(func() {
				_, err := x.store.Replace(x.ctx, h.Version, next, b)
				if h.ID != bad.ID && err != nil {
					t.Errorf("Replace beside a record of another format: %v", err)
				} else if h.ID == bad.ID && !errors.Is(err, stet.ErrCorrupt) {
					t.Errorf("Replace of a record of another format: %v, want ErrCorrupt", err)
				}
			})
			together(func() {
				if _, err := x.store.Create(x.ctx, running(fmt.Sprint(round, " new ", i))); err != nil {
					t.Errorf("Create beside a record of another format: %v", err)
				}
			})
		}
		together(func() {
			if _, err := x.store.Create(x.ctx, running(string(bad.Key))); !errors.Is(err, stet.ErrCorrupt) {
				t.Errorf("Create of a record of another format: %v, want ErrCorrupt", err)
			}
		})
		together(func() {
			if err := x.store.Delete(x.ctx, bad.ID, bad.Version); !errors.Is(err, stet.ErrCorrupt) {
				t.Errorf("Delete of a record of another format: %v, want ErrCorrupt", err)
			}
		})
		close(start)
		wg.Wait()
		x.refused(bad)
	}
}

func formatInTransaction(t testing.TB, x *bench) { // B09
	ability[stet.Binder](t, x)
	other, made := x.create(running("other")), x.create(running("k"))
	x.tamper(made.ID, Tampering{Format: true})
	tx := x.begin()
	tx.refused(made.Head)
	done := tx.replace(other.Head, nil, completed)
	if err := tx.commit(); err != nil {
		t.Fatal(err)
	}
	if got := x.get(other.ID); got.Version != done.Version {
		t.Error("what was written beside a record of another format was not committed")
	}
	x.refused(made.Head)
	if _, ok := stet.As[stet.Historian](x.store); ok {
		x.entries(stet.HistoryQuery{})
	}
}

func anotherVersion(t testing.TB, x *bench) { // I3
	made := x.create(running("k"))
	v := draw()
	x.tamper(made.ID, Tampering{Version: v})
	_, unread := x.store.Get(x.ctx, made.ID)
	sealed := errors.Is(unread, stet.ErrCorrupt)
	if got, err := x.store.Create(x.ctx, running("k")); !sealed && (!errors.Is(err, stet.ErrExists) || got.Version != v) {
		t.Errorf("Create: %v, and shows version %d, want ErrExists and %d", err, got.Version, v)
	} else if sealed && !errors.Is(err, stet.ErrCorrupt) {
		t.Errorf("Create of what cannot be read: %v, want ErrCorrupt", err)
	}
	next := made.Head
	next.Version, next.DueIn = draw(), time.Minute
	if shown, err := x.store.Replace(x.ctx, made.Version, next, nil); !errors.Is(err, stet.ErrStale) || shown.Version != v {
		t.Errorf("Replace of the version before: %v, and shows version %d, want ErrStale and %d", err, shown.Version, v)
	}
	if err := x.store.Delete(x.ctx, made.ID, made.Version); !errors.Is(err, stet.ErrStale) {
		t.Errorf("Delete of the version before: %v, want ErrStale", err)
	}
	if sealed {
		return
	}
	got := x.get(made.ID)
	if got.Version != v {
		t.Fatalf("the record has version %d, want %d", got.Version, v)
	}
	x.replace(got.Head, nil, completed)
}

// instantsAhead writes each record with a clock that is one hour ahead, and then with the clock of
// the store.
func instantsAhead(t testing.TB, x *bench) { // B03, B09, CR-16
	const ahead, crowd = time.Hour, 64 // half of them without a note: a group, where few writes are none
	age := func(key string) stet.Head {
		made := x.create(running(key))
		x.tamper(made.ID, Tampering{Ahead: ahead})
		got := x.get(made.ID).Head
		if !got.UpdatedAt.Equal(made.UpdatedAt.Add(ahead)) || !got.CreatedAt.Equal(made.CreatedAt.Add(ahead)) || !got.DueAt.Equal(made.DueAt.Add(ahead)) {
			t.Fatalf("the record was to be %v ahead, and is of %v, updated %v, due %v", ahead, got.CreatedAt, got.UpdatedAt, got.DueAt)
		}
		return got
	}
	ordered := func(how string, was, is stet.Head) {
		t.Helper()
		due := is.UpdatedAt.Add(time.Minute)
		if is.UpdatedAt.Before(was.UpdatedAt) || is.CreatedAt.Before(was.CreatedAt) || !is.DueAt.Equal(due) {
			t.Errorf("%s: updated at %v after %v, created %v after %v, due at %v, want %v", how, is.UpdatedAt, was.UpdatedAt,
				is.CreatedAt, was.CreatedAt, is.DueAt, due)
		}
		if is.State == stet.Completed && !is.CompletedAt.Equal(is.UpdatedAt) {
			t.Errorf("%s: completed at %v by a write at %v", how, is.CompletedAt, is.UpdatedAt)
		}
	}
	life := func(how string, in *bench, h stet.Head) {
		t.Helper()
		next := in.replace(h, nil, func(*stet.Head) {})
		ordered(how+", renewed", h, next)
		done := in.replace(next, nil, func(h *stet.Head) { h.State = stet.Completed })
		ordered(how+", completed", next, done)
		again := in.replace(done, &stet.Body{}, func(h *stet.Head) { h.State, h.CreatedAt, h.CompletedAt = stet.Running, time.Time{}, time.Time{} })
		ordered(how+", a new life", done, again)
		if shown := in.get(h.ID); !shown.UpdatedAt.Equal(again.UpdatedAt) || !shown.DueAt.Equal(again.DueAt) || !shown.CreatedAt.Equal(again.CreatedAt) {
			t.Errorf("%s: what Replace answered is not what is stored", how)
		}
	}
	life("alone", x, age("alone"))
	heads := make([]stet.Head, crowd)
	for i := range heads {
		heads[i] = age(key(i))
	}
	var wg sync.WaitGroup
	for i, h := range heads {
		wg.Go(func() {
			next := h
			next.Version, next.State, next.DueIn = draw(), stet.Completed, time.Minute
			if i%2 == 0 {
				next.Note = &stet.Note{Who: "w"}
			}
			got, err := x.store.Replace(x.ctx, h.Version, next, nil)
			if err != nil {
				t.Errorf("Replace: %v", err)
				return
			}
			ordered("in a crowd", h, got)
		})
	}
	wg.Wait()
	noted, history := stet.As[stet.Historian](x.store)
	if history {
		changes, _, err := noted.History(x.ctx, stet.HistoryQuery{ID: heads[0].ID})
		if err != nil || len(changes) != 1 || !changes[0].At.Equal(x.get(heads[0].ID).UpdatedAt) {
			t.Errorf("the history of a record that was ahead has %d entries, %v", len(changes), err)
		}
	}
	if _, binds := stet.As[stet.Binder](x.store); binds {
		h := age("bound")
		tx := x.begin()
		life("in a transaction", tx.bench, h)
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
	}
}
