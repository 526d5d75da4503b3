package faulty_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/storetest/faulty"
)

func record(key stet.Key, v stet.Version) stet.Record {
	return stet.Record{Head: stet.Head{ID: stet.ID{Scope: "s", Key: key}, Version: v, State: stet.Running, Attempt: 1, DueIn: time.Minute}}
}

func completed(r stet.Record) stet.Head {
	r.Version, r.State, r.Status, r.DueIn = r.Version+1, stet.Completed, 201, time.Hour
	return r.Head
}

// verbs calls everything a store has, and returns the errors by name.
func verbs(ctx context.Context, s stet.Store, key stet.Key) map[string]error {
	r := record(key, 1)
	_, create := s.Create(ctx, r)
	_, get := s.Get(ctx, r.ID)
	_, replace := s.Replace(ctx, r.Version, completed(r), nil)
	remove := s.Delete(ctx, r.ID, r.Version+1)
	_, _, due := s.Due(ctx, stet.Query{})
	errs := map[string]error{"Create": create, "Get": get, "Replace": replace, "Delete": remove, "Due": due}
	if l, ok := stet.As[stet.Lister](s); ok {
		_, _, errs["List"] = l.List(ctx, stet.Query{})
	}
	if c, ok := stet.As[stet.Counter](s); ok {
		_, errs["Count"] = c.Count(ctx, stet.Query{})
	}
	if w, ok := stet.As[stet.Waiter](s); ok {
		errs["Wait"] = w.Wait(ctx, r.ID, 99)
	}
	if f, ok := stet.As[stet.Finder](s); ok {
		_, errs["Find"] = f.Find(ctx, "", "ch_1")
	}
	if h, ok := stet.As[stet.Historian](s); ok {
		_, _, errs["History"] = h.History(ctx, stet.HistoryQuery{ID: r.ID})
	}
	return errs
}

// A walk of what is due goes through, page by page, and none of it where a page fails.
func TestDuePagesGoThrough(t *testing.T) {
	s := faulty.New(memstore.New(memstore.Config{}), 1)
	for i := range 5 {
		r := record(stet.Key(rune('a'+i)), 1)
		r.DueIn = 0
		if _, err := s.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	seen, q := 0, stet.Query{Limit: 2}
	for pages := 1; ; pages++ {
		heads, next, err := s.Due(t.Context(), q)
		if seen += len(heads); err != nil || next == "" && (seen != 5 || pages != 3) {
			t.Fatalf("after %d pages %d were seen, %v", pages, seen, err)
		}
		if q.After = next; next == "" {
			break
		}
	}
	s.Lose(0, 1)
	if heads, next, err := s.Due(t.Context(), stet.Query{Limit: 2}); err == nil || heads != nil || next != "" {
		t.Errorf("a page that was lost has %d records, and the cursor %q: %v", len(heads), next, err)
	}
}

func TestDownIsDownForEverything(t *testing.T) {
	s := faulty.New(memstore.New(memstore.Config{}), 1)
	s.Down()
	errs := verbs(t.Context(), s, "k")
	for verb, err := range errs {
		if !errors.Is(err, faulty.ErrFault) {
			t.Errorf("%s of a store that is down: %v", verb, err)
		}
	}
	if len(errs) != 10 {
		t.Errorf("%d of 10 verbs and abilities were found", len(errs))
	}
	s.Up()
	for verb, err := range verbs(t.Context(), s, "k") {
		if err != nil {
			t.Errorf("%s of a store that is up again: %v", verb, err)
		}
	}
}

// The abilities a store may have, each alone.
type (
	plain struct{ stet.Store }
	lists struct {
		stet.Store
		stet.Lister
	}
	counts struct {
		stet.Store
		stet.Counter
	}
	waits struct {
		stet.Store
		stet.Waiter
	}
	finds struct {
		stet.Store
		stet.Finder
	}
	remembers struct {
		stet.Store
		stet.Historian
	}
	binds struct{ stet.Store }
)

// Bind takes 1 for a transaction, whose verbs are the store's own.
func (b binds) Bind(tx any) (stet.Store, error) {
	if tx != 1 {
		return nil, stet.ErrForeignTx
	}
	return b.Store, nil
}

func abilities(s stet.Store) (found [7]bool) {
	_, found[0] = stet.As[stet.Lister](s)
	_, found[1] = stet.As[stet.Counter](s)
	_, found[2] = stet.As[stet.Waiter](s)
	_, found[3] = stet.As[io.Closer](s)
	_, found[4] = stet.As[stet.Finder](s)
	_, found[5] = stet.As[stet.Historian](s)
	_, found[6] = stet.As[stet.Binder](s)
	return found
}

func TestAbilitiesAreThoseOfTheInnerStore(t *testing.T) {
	m := memstore.New(memstore.Config{})
	for _, inner := range []stet.Store{m, plain{m}, lists{m, m}, counts{m, m}, waits{m, m}, finds{m, m}, remembers{m, m}, binds{m}} {
		s := faulty.New(faulty.New(inner, 1), 2)
		if got, want := abilities(s), abilities(inner); got != want {
			t.Errorf("%T has %v, wrapped %v", inner, want, got)
		}
		s.Down()
		for verb, err := range verbs(t.Context(), s, "k") {
			if !errors.Is(err, faulty.ErrFault) {
				t.Errorf("%s of a %T that is down: %v", verb, inner, err)
			}
		}
	}
}

// Within a transaction the same faults are in force, whenever they were set.
func TestBoundStoresFailAlike(t *testing.T) {
	s := faulty.New(binds{memstore.New(memstore.Config{})}, 1)
	b, _ := stet.As[stet.Binder](s)
	if _, err := b.Bind("another"); !errors.Is(err, stet.ErrForeignTx) {
		t.Errorf("a foreign transaction: %v", err)
	}
	bound, err := b.Bind(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, down := range []bool{false, true, false} {
		s.Up()
		if down {
			s.Down()
		}
		for verb, err := range verbs(t.Context(), bound, "k") {
			if errors.Is(err, faulty.ErrFault) != down {
				t.Errorf("down: %v; %s in a transaction: %v", down, verb, err)
			}
		}
	}
}

func TestSlowHeedsTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := faulty.New(memstore.New(memstore.Config{}), 1)
		s.Slow(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		for verb, err := range verbs(ctx, s, "k") {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", verb, err)
			}
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %v", took)
		}
		began = time.Now()
		if _, err := s.Create(t.Context(), record("k", 1)); err != nil || time.Since(began) != time.Hour {
			t.Errorf("Create took %v: %v", time.Since(began), err)
		}
	})
}

func TestFailComplete(t *testing.T) {
	s := faulty.New(memstore.New(memstore.Config{}), 1)
	s.FailComplete(true)
	r, err := s.Create(t.Context(), record("k", 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Replace(t.Context(), r.Version, completed(r), nil); !errors.Is(err, faulty.ErrFault) {
		t.Errorf("completing: %v", err)
	}
	if got, err := s.Get(t.Context(), r.ID); err != nil || got.Version != r.Version {
		t.Errorf("a write that was to fail happened: %v", err)
	}
	renewed := r.Head
	renewed.Version = 7
	if _, err := s.Replace(t.Context(), r.Version, renewed, nil); err != nil {
		t.Errorf("renewing: %v", err)
	}
}

func TestLostRepliesHappened(t *testing.T) {
	s := faulty.New(memstore.New(memstore.Config{}), 1)
	s.LoseReplies(2)
	for i, key := range []stet.Key{"a", "b", "c", "d"} {
		r := record(key, 1)
		got, err := s.Create(t.Context(), r)
		if lost := i%2 == 1; errors.Is(err, faulty.ErrFault) != lost || lost && got.Version != 0 {
			t.Errorf("write %d: %v, and shows version %d", i, err, got.Version)
		}
		if _, err := s.Get(t.Context(), r.ID); err != nil {
			t.Errorf("write %d did not happen: %v", i, err)
		}
	}
}

func TestSameSeedLosesTheSame(t *testing.T) {
	run := func(seed uint64) (lost []bool) {
		s := faulty.New(memstore.New(memstore.Config{}), seed)
		s.Lose(0.3, 0.3)
		for i := range 64 {
			_, err := s.Create(t.Context(), record(stet.Key(rune('A'+i)), 1))
			lost = append(lost, err != nil)
		}
		return lost
	}
	if !slices.Equal(run(1), run(1)) || slices.Equal(run(1), run(2)) || !slices.Contains(run(1), true) {
		t.Error("the seed does not decide what is lost")
	}
}

func TestCorruptRefusesItsKeyAlone(t *testing.T) {
	s := faulty.New(memstore.New(memstore.Config{}), 1)
	s.Corrupt(record("k", 1).ID)
	s.Up() // heals everything else
	for verb, err := range verbs(t.Context(), s, "k") {
		if ofKey := !slices.Contains([]string{"Due", "List", "Count", "Find"}, verb); errors.Is(err, stet.ErrCorrupt) != ofKey {
			t.Errorf("%s: %v", verb, err)
		}
	}
	for verb, err := range verbs(t.Context(), s, "other") {
		if err != nil {
			t.Errorf("%s of another key: %v", verb, err)
		}
	}
}
