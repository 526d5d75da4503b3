package storetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

var identityLaws = []law{
	{"identity", "a store has an ID of its own, which it keeps when it is opened again, and its mark never falls", identity},
	{"set back", "a store that was set back takes no write, shows what it has, and goes on once it is accepted, wherever it is open", setBack},
	{"emptied", "a store that was emptied takes no write, shows what it has, and goes on once it is accepted, wherever it is open", emptied},
	{"another expected", "a store that is not the expected one takes no write", anotherExpected},
}

// sight is how long it may take until a store is seen to be another one: a second by its promise,
// and more on a slow machine.
func (x *bench) sight() time.Duration { return 10 * x.patience }

func identified(t testing.TB, s stet.Store) stet.Identified {
	i, ok := stet.As[stet.Identified](s)
	if !ok {
		t.Skip("the store has no identity")
	}
	return i
}

// named reads the identity of a store that is the one it has to be.
func named(t testing.TB, ctx context.Context, s stet.Store) stet.Identity {
	t.Helper()
	now, known, err := identified(t, s).Identity(ctx)
	if err != nil || now.ID == "" || known.ID != now.ID || now.Made.IsZero() {
		t.Fatalf("Identity is %+v, known is %+v, %v", now, known, err)
	}
	return now
}

func identity(t testing.TB, x *bench) { // S04
	was := named(t, x.ctx, x.store)
	x.raised(t, x.store, was.Mark)
	if x.Shared {
		if beside := named(t, x.ctx, x.open()); beside.ID != was.ID || beside.Mark <= was.Mark {
			t.Errorf("another handle has %+v, after %+v", beside, was)
		}
	}
	if x.Durable {
		mark := named(t, x.ctx, x.store).Mark
		closeStore(t, x.opened)
		if again := named(t, x.ctx, x.open()); again.ID != was.ID || again.Mark < mark {
			t.Errorf("opened again it is %+v, and was %+v", again, was)
		}
	}
	other := x.Open(t, x.dir+"/other", x.clock.Now)
	defer closeStore(t, other)
	if named(t, x.ctx, other).ID == was.ID {
		t.Error("another store has the same ID")
	}
}

// raised writes until the mark is above one.
func (x *bench) raised(t testing.TB, s stet.Store, above int64) {
	t.Helper()
	for end := time.Now().Add(x.sight()); named(t, x.ctx, s).Mark <= above; pause(10 * time.Millisecond) {
		if _, err := s.Create(x.ctx, running("raised-"+time.Now().String())); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatalf("the mark stays at %d while the store is written to", above)
		}
	}
}

func pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

func setBack(t testing.TB, x *bench) { // S03, S06
	if identified(t, x.store); x.Backup == nil {
		t.Skip("the store cannot be set back while it is open")
	}
	kept := x.create(running("kept"))
	x.raised(t, x.store, named(t, x.ctx, x.store).Mark)
	restore := x.Backup(t, x.opened)
	was := x.create(running("forgotten"))
	x.raised(t, x.store, named(t, x.ctx, x.store).Mark)
	known := named(t, x.ctx, x.store)
	others := x.others(t)
	restore()
	x.foreign(t, known, others, "forgotten")
	if got, err := x.store.Get(x.ctx, kept.ID); err != nil || got.Version != kept.Version {
		t.Errorf("what is there cannot be read: %v", err)
	}
	x.accepted(t, known, others, was)
}

func emptied(t testing.TB, x *bench) { // S03: FLUSHALL
	if identified(t, x.store); x.Empty == nil {
		t.Skip("the store cannot be emptied while it is open")
	}
	was := x.create(running("forgotten"))
	x.raised(t, x.store, named(t, x.ctx, x.store).Mark)
	known := named(t, x.ctx, x.store)
	others := x.others(t)
	x.Empty(t, x.opened)
	x.foreign(t, known, others, "forgotten")
	x.accepted(t, known, others, was)
}

// others are further handles on the store, if it can have any.
func (x *bench) others(t testing.TB) []stet.Store {
	if !x.Shared {
		return nil
	}
	other := x.open()
	named(t, x.ctx, other)
	return []stet.Store{other}
}

// foreign asserts that each handle refuses to write, soon. What it writes before that may be
// stored, or lost with what was there.
func (x *bench) foreign(t testing.TB, known stet.Identity, others []stet.Store, forgotten string) {
	t.Helper()
	for _, s := range append([]stet.Store{x.store}, others...) {
		end, refused := time.Now().Add(x.sight()), false
		for ; !refused && time.Now().Before(end); pause(10 * time.Millisecond) {
			_, err := s.Create(x.ctx, running("unseen-"+time.Now().String()))
			refused = errors.Is(err, stet.ErrForeign)
		}
		if !refused {
			t.Fatal("it takes new keys")
		}
		if _, err := s.Create(x.ctx, running(forgotten)); !errors.Is(err, stet.ErrForeign) {
			t.Errorf("a key that was forgotten is new: %v", err)
		}
		h := running(forgotten).Head
		h.State = stet.Completed
		if _, err := s.Replace(x.ctx, draw(), h, &stet.Body{}); !errors.Is(err, stet.ErrForeign) {
			t.Errorf("Replace: %v", err)
		}
		if err := s.Delete(x.ctx, h.ID, draw()); !errors.Is(err, stet.ErrForeign) {
			t.Errorf("Delete: %v", err)
		}
		if _, err := s.Get(x.ctx, h.ID); !errors.Is(err, stet.ErrNotFound) {
			t.Errorf("Get of what it has not: %v", err)
		}
		if now, k, err := identified(t, s).Identity(x.ctx); !errors.Is(err, stet.ErrForeign) || k.ID != known.ID || now.ID == k.ID && now.Mark >= k.Mark {
			t.Errorf("Identity says %+v, known is %+v, %v", now, k, err)
		}
	}
}

// accepted accepts the store by one handle, and asserts that all go on.
func (x *bench) accepted(t testing.TB, known stet.Identity, others []stet.Store, was stet.Record) {
	t.Helper()
	got, err := identified(t, x.store).Accept(x.ctx)
	if err != nil || got.ID == known.ID || !slices.Contains(got.Replaces, known.ID) || got.Mark <= known.Mark {
		t.Fatalf("Accept: %+v in place of %+v, %v", got, known, err)
	}
	if _, err := x.store.Create(x.ctx, running(string(was.Key))); err != nil {
		t.Errorf("after it was accepted: %v", err)
	}
	for _, s := range others {
		end := time.Now().Add(x.sight())
		for err = stet.ErrForeign; errors.Is(err, stet.ErrForeign) && time.Now().Before(end); pause(10 * time.Millisecond) {
			_, err = s.Create(x.ctx, running("again-"+time.Now().String()))
		}
		if err != nil {
			t.Errorf("elsewhere, after it was accepted: %v", err)
		}
	}
	if x.Shared {
		x.store = x.open()
		if again := named(t, x.ctx, x.store); again.ID != got.ID {
			t.Errorf("opened again it is %+v", again)
		}
	}
}

func anotherExpected(t testing.TB, x *bench) {
	i := identified(t, x.store)
	kept := x.create(running("kept"))
	now := named(t, x.ctx, x.store)
	i.Know(stet.Identity{ID: "st_other"})
	if _, err := x.store.Create(x.ctx, running("new")); !errors.Is(err, stet.ErrForeign) {
		t.Errorf("Create: %v", err)
	}
	if _, err := x.store.Get(x.ctx, kept.ID); err != nil {
		t.Errorf("Get: %v", err)
	}
	i.Know(stet.Identity{ID: now.ID, Mark: now.Mark + 1000})
	if _, err := x.store.Create(x.ctx, running("new")); !errors.Is(err, stet.ErrForeign) {
		t.Errorf("Create with a mark that it has not reached: %v", err)
	}
	got, err := i.Accept(x.ctx)
	if err != nil || got.Mark <= now.Mark+1000 {
		t.Fatalf("Accept: %+v, %v", got, err)
	}
	i.Know(stet.Identity{ID: now.ID}) // it replaces the one that is expected
	if _, err := x.store.Create(x.ctx, running("new")); err != nil {
		t.Errorf("Create: %v", err)
	}
}

func fencesGrow(t testing.TB, x *bench) { // S24
	var last stet.Head
	for i := range 20 { // at once, also on a clock that stands still
		r := running("again")
		r.Attempt = 1 + i%2*2
		got := x.create(r)
		if got.Fence() <= last.Fence() {
			t.Fatalf("fence %d follows %d", got.Fence(), last.Fence())
		}
		last = got.Head
		if err := x.store.Delete(x.ctx, got.ID, got.Version); err != nil {
			t.Fatal(err)
		}
	}
}
