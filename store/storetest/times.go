package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

var timeLaws = []law{
	{"fences grow", "a key that is made again after its record was deleted has a later birth, and so a greater fence", fencesGrow},
	{"stamps", "every write is stamped by the store's clock, in whole microseconds, in UTC", stamps},
	{"a new life", "Replace stamps CreatedAt if it is zero, and keeps it otherwise", newLife},
	{"completion",
		"CompletedAt is zero until a write completes the record; that write stamps it, and later writes keep it",
		completion},
	{"a clock set back",
		"if the clock is set back, the store's time stands still: no record becomes older than it was, and none falls due early",
		clockSetBack},
	{"a clock behind",
		"a lease that one handle has granted is not over early for another one, if the host's clock was set back in between",
		clockBehind},
	{"due", "Due returns the records that have fallen due, earliest first, and no others", due},
	{"due bounds", "Due selects by states, scope and route, and respects the limit", dueBounds},
	{"never due", "a record that is written with DueIn Never does not fall due", neverDue},
}

func wholeMicros(t testing.TB, name string, at time.Time) {
	t.Helper()
	if at.IsZero() {
		t.Errorf("%s is not stamped", name)
	}
	if at.Nanosecond()%1000 != 0 || at.Location() != time.UTC {
		t.Errorf("%s is %v: not whole microseconds in UTC", name, at)
	}
}

func stamps(t testing.TB, x *bench) {
	r := running("k")
	r.CreatedAt, r.UpdatedAt = time.Unix(1, 0), time.Unix(2, 0) // a writer's clock counts for nothing
	made := x.create(r)
	for name, at := range map[string]time.Time{"CreatedAt": made.CreatedAt, "UpdatedAt": made.UpdatedAt, "DueAt": made.DueAt, "AsOf": made.AsOf} {
		wholeMicros(t, name, at)
	}
	if !made.UpdatedAt.Equal(made.CreatedAt) || !made.DueAt.Equal(made.UpdatedAt.Add(time.Minute)) {
		t.Errorf("created %v, updated %v, due %v", made.CreatedAt, made.UpdatedAt, made.DueAt)
	}
	x.pass(30 * time.Millisecond)
	got := x.get(r.ID)
	if !got.AsOf.After(made.AsOf) || !got.UpdatedAt.Equal(made.UpdatedAt) {
		t.Errorf("read later: as of %v after %v, updated %v", got.AsOf, made.AsOf, got.UpdatedAt)
	}
	next := x.replace(made.Head, nil, func(h *stet.Head) { h.DueIn = 90 * time.Second })
	if !next.UpdatedAt.After(made.UpdatedAt) || !next.CreatedAt.Equal(made.CreatedAt) || !next.DueAt.Equal(next.UpdatedAt.Add(90*time.Second)) {
		t.Errorf("replaced: created %v, updated %v, due %v", next.CreatedAt, next.UpdatedAt, next.DueAt)
	}
}

func newLife(t testing.TB, x *bench) {
	made := x.create(running("k"))
	x.pass(20 * time.Millisecond)
	kept := x.replace(made.Head, nil, func(*stet.Head) {})
	if !kept.CreatedAt.Equal(made.CreatedAt) {
		t.Errorf("CreatedAt changed from %v to %v", made.CreatedAt, kept.CreatedAt)
	}
	x.pass(20 * time.Millisecond)
	born := x.replace(kept, &stet.Body{}, func(h *stet.Head) { h.CreatedAt = time.Time{} })
	if !born.CreatedAt.Equal(born.UpdatedAt) || !born.CreatedAt.After(kept.CreatedAt) {
		t.Errorf("a new life began at %v, written at %v", born.CreatedAt, born.UpdatedAt)
	}
	if born.Fence() <= made.Fence() {
		t.Errorf("the fence did not grow: %d, then %d", made.Fence(), born.Fence())
	}
}

func completion(t testing.TB, x *bench) {
	made := x.create(running("k"))
	if !made.CompletedAt.IsZero() {
		t.Errorf("running, and completed at %v", made.CompletedAt)
	}
	x.pass(20 * time.Millisecond)
	done := x.replace(made.Head, nil, completed)
	wholeMicros(t, "CompletedAt", done.CompletedAt)
	if !done.CompletedAt.Equal(done.UpdatedAt) {
		t.Errorf("completed at %v by a write at %v", done.CompletedAt, done.UpdatedAt)
	}
	x.pass(20 * time.Millisecond)
	later := x.replace(done, nil, func(h *stet.Head) { h.State = stet.Expired })
	if !later.CompletedAt.Equal(done.CompletedAt) {
		t.Errorf("CompletedAt moved from %v to %v", done.CompletedAt, later.CompletedAt)
	}
	again := x.replace(later, &stet.Body{}, func(h *stet.Head) { h.State, h.CreatedAt = stet.Running, time.Time{} })
	if !again.CompletedAt.IsZero() {
		t.Errorf("running again, and completed at %v", again.CompletedAt)
	}
}

func clockSetBack(t testing.TB, x *bench) { // CR-16, W10
	if x.ServerClock {
		t.Skip("the clock is the server's")
	}
	made := x.create(running("k"))
	x.pass(-time.Hour)
	got := x.get(made.ID)
	if got.AsOf.Before(made.AsOf) || got.Over() {
		t.Errorf("read as of %v after %v; over: %v", got.AsOf, made.AsOf, got.Over())
	}
	next := x.replace(made.Head, nil, func(h *stet.Head) { h.DueIn = time.Minute })
	if next.UpdatedAt.Before(made.UpdatedAt) || next.DueAt.Before(made.DueAt) {
		t.Errorf("updated at %v after %v, due at %v after %v", next.UpdatedAt, made.UpdatedAt, next.DueAt, made.DueAt)
	}
	x.pass(30 * time.Minute) // still behind
	if heads, _, err := x.store.Due(x.ctx, stet.Query{}); err != nil || len(heads) != 0 {
		t.Errorf("%d are due before their time (%v)", len(heads), err)
	}
	x.pass(32 * time.Minute)
	if heads, _, err := x.store.Due(x.ctx, stet.Query{}); err != nil || len(heads) != 1 {
		t.Errorf("%d are due (%v), want 1", len(heads), err)
	}
}

func clockBehind(t testing.TB, x *bench) { // S05, W10
	switch {
	case x.ServerClock:
		t.Skip("the clock is the server's")
	case !x.Shared:
		t.Skip("the store has one handle at a time")
	}
	x.create(running("before"))
	behind := &Clock{}
	behind.Advance(-time.Hour)
	for _, key := range []string{"granted", "granted after a restart"} {
		other := x.Open(t, x.dir, behind.Now)
		if _, err := other.Create(x.ctx, running(key)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if h := x.get(running(key).ID); h.Over() {
				t.Errorf("%s: the lease is over for another handle %v before its end", key, time.Minute-h.AsOf.Sub(h.CreatedAt))
			}
			if got, err := other.Get(x.ctx, running("before").ID); err != nil || got.Over() {
				t.Errorf("%s: the lease that was granted before is over early (%v)", key, err)
			}
			x.pass(20 * time.Second)
			behind.Advance(20 * time.Second)
		}
		x.pass(-40 * time.Second)
		behind.Advance(-40 * time.Second)
		closeStore(t, other)
	}
	x.pass(2 * time.Minute)
	if heads, _, err := x.store.Due(x.ctx, stet.Query{}); err != nil || len(heads) != 3 {
		t.Errorf("%d are due after their time (%v), want 3", len(heads), err)
	}
}

func due(t testing.TB, x *bench) { // CR-16
	for i, in := range []time.Duration{50, 20, 40, 10, 30} { // milliseconds
		r := running(key(i))
		r.DueIn = in * time.Millisecond
		x.create(r)
	}
	far := running("far")
	far.DueIn = time.Hour
	x.create(far)
	if !x.ServerClock {
		x.pass(25 * time.Millisecond)
		if heads, _, err := x.store.Due(x.ctx, stet.Query{}); err != nil || len(heads) != 2 || heads[0].Key != stet.Key(key(3)) || heads[1].Key != stet.Key(key(1)) {
			t.Fatalf("after 25 ms %d are due (%v)", len(heads), err)
		}
	}
	x.pass(50 * time.Millisecond)
	heads, _, err := x.store.Due(x.ctx, stet.Query{})
	if err != nil || len(heads) != 5 {
		t.Fatalf("%d are due (%v), want 5", len(heads), err)
	}
	for i, h := range heads {
		if i > 0 && h.DueAt.Before(heads[i-1].DueAt) || !h.Over() {
			t.Errorf("place %d: due at %v, as of %v", i, h.DueAt, h.AsOf)
		}
	}
	for _, h := range heads[:2] { // moving and removing takes them off
		if _, err := x.store.Replace(x.ctx, h.Version, renewed(h), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.store.Delete(x.ctx, heads[2].ID, heads[2].Version); err != nil {
		t.Fatal(err)
	}
	if left, _, err := x.store.Due(x.ctx, stet.Query{}); err != nil || len(left) != 2 || left[0].ID != heads[3].ID {
		t.Errorf("%d are left (%v), want 2", len(left), err)
	}
}

func renewed(h stet.Head) stet.Head {
	h.Version, h.DueIn = draw(), time.Hour
	return h
}

func dueBounds(t testing.TB, x *bench) {
	for i := range 30 {
		r := running(key(i))
		r.DueIn, r.Route = 0, []string{"a", "b", "c"}[i%3]
		r.Scope = []stet.Scope{"s", "t"}[i%2]
		made := x.create(r)
		if i%5 == 0 {
			x.replace(made.Head, nil, func(h *stet.Head) { h.State, h.DueIn = stet.Unknown, 0 })
		}
	}
	x.pass(10 * time.Millisecond)
	for _, c := range []struct {
		q    stet.Query
		want int
	}{
		{stet.Query{}, 30},
		{stet.Query{Limit: 7}, 7},
		{stet.Query{Limit: -1}, 30}, // as none
		{stet.Query{States: []stet.State{stet.Unknown}}, 6},
		{stet.Query{States: []stet.State{stet.Running, stet.Unknown}, Limit: 29}, 29},
		{stet.Query{States: []stet.State{stet.Completed}}, 0},
		{stet.Query{Scope: "t"}, 15},
		{stet.Query{Route: "a"}, 10},
		{stet.Query{Route: "a", Scope: "s", States: []stet.State{stet.Running}}, 4},
	} {
		heads, _, err := x.store.Due(x.ctx, c.q)
		if err != nil || len(heads) != c.want {
			t.Errorf("Due(%+v): %d heads, %v; want %d", c.q, len(heads), err, c.want)
		}
	}
}

func neverDue(t testing.TB, x *bench) {
	r := running("k")
	r.DueIn = stet.Never
	made := x.create(r)
	if !made.DueAt.IsZero() || !x.get(r.ID).DueAt.IsZero() {
		t.Errorf("due at %v", made.DueAt)
	}
	next := x.replace(made.Head, nil, func(h *stet.Head) { h.DueIn = 0 })
	if next.DueAt.IsZero() {
		t.Error("not due after all")
	}
	x.replace(next, nil, func(h *stet.Head) { h.DueIn = stet.Never })
	if !x.ServerClock {
		x.pass(1000 * time.Hour)
	}
	if heads, _, err := x.store.Due(x.ctx, stet.Query{}); err != nil || len(heads) != 0 {
		t.Errorf("due: %v, %v", heads, err)
	}
	if _, err := x.store.Get(x.ctx, stet.ID{Scope: "tenant", Key: "other"}); !errors.Is(err, stet.ErrNotFound) {
		t.Error(err)
	}
}
