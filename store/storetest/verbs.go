package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

var verbLaws = []law{
	{"create once",
		"if many callers create the same record, exactly one succeeds; the others get its record and ErrExists",
		createOnce},
	{"create existing", "Create never changes an existing record", createTwice},
	{"not found",
		"every verb returns ErrNotFound for a record that was never created or is deleted, and creates none",
		notFound},
	{"compare and set",
		"Replace changes the record only if it has the expected version; otherwise it returns ErrStale and the stored Head",
		compareAndSet},
	{"one replacer", "if many callers replace the same version, exactly one succeeds", oneReplacer},
	{"no lost update",
		"if many callers read, change and replace a record until they succeed, no change is lost", noLostUpdate},
	{"delete", "Delete removes the record only if it has the expected version", deleteLaw},
	{"boundaries", "two different pairs of scope and key never name the same record", boundaries},
	{"ended contexts", "a call with an ended context either has no effect or reports what it did", endedContexts},
	{"abandoned calls",
		"a call whose caller gives up takes effect completely or not at all, and blocks no other call",
		abandonedCalls},
}

func createOnce(t testing.TB, x *bench) { // I1
	const racers = 64
	for round := range 4 {
		var wg sync.WaitGroup
		won := make([]bool, racers)
		versions := make([]stet.Version, racers)
		for i := range racers {
			wg.Go(func() {
				r := running(key(round))
				got, err := x.store.Create(x.ctx, r)
				versions[i] = got.Version
				switch {
				case err == nil:
					won[i] = true
					if got.Version != r.Version {
						t.Errorf("the winner was shown another version")
					}
				case !errors.Is(err, stet.ErrExists):
					t.Errorf("Create: %v", err)
				}
			})
		}
		wg.Wait()
		winners := 0
		for i := range racers {
			if won[i] {
				winners++
			}
			if versions[i] != versions[0] {
				t.Errorf("racer %d was shown version %d, racer 0 %d", i, versions[i], versions[0])
			}
		}
		if winners != 1 {
			t.Fatalf("%d racers created the record", winners)
		}
	}
}

func createTwice(t testing.TB, x *bench) {
	first := running("k")
	first.Progress = []byte("progress")
	made := x.create(first)
	second := running("k")
	second.Attempt, second.Holder = 7, "thief"
	got, err := x.store.Create(x.ctx, second)
	if !errors.Is(err, stet.ErrExists) {
		t.Fatalf("Create: %v, want ErrExists", err)
	}
	for _, shown := range []stet.Record{got, x.get(first.ID)} {
		made.AsOf = shown.AsOf
		sameRecord(t, shown, made)
	}
}

func notFound(t testing.TB, x *bench) { // S2-17
	r := running("k")
	check := func(verb string, err error) {
		t.Helper()
		if !errors.Is(err, stet.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", verb, err)
		}
	}
	absent := func() {
		t.Helper()
		_, err := x.store.Get(x.ctx, r.ID)
		check("Get", err)
		h := r.Head
		completed(&h)
		_, err = x.store.Replace(x.ctx, r.Version, h, &stet.Body{Response: &stet.Response{Status: 201}})
		check("Replace", err)
		check("Delete", x.store.Delete(x.ctx, r.ID, r.Version))
	}
	absent()
	made := x.create(r)
	if err := x.store.Delete(x.ctx, r.ID, made.Version); err != nil {
		t.Fatal(err)
	}
	absent()
	x.create(r)
}

func compareAndSet(t testing.TB, x *bench) { // I3
	made := x.create(running("k"))
	next := x.replace(made.Head, nil, completed)
	for _, stale := range []stet.Version{made.Version, draw(), 0} {
		h := made.Head
		h.Version, h.State, h.Cause, h.DueIn = draw(), stet.Unknown, "stale", 0
		shown, err := x.store.Replace(x.ctx, stale, h, &stet.Body{})
		if !errors.Is(err, stet.ErrStale) {
			t.Fatalf("Replace of a stale version: %v, want ErrStale", err)
		}
		if shown.Version != next.Version || shown.State != stet.Completed {
			t.Errorf("the stale writer was shown version %d in state %v", shown.Version, shown.State)
		}
	}
	if got := x.get(made.ID); got.State != stet.Completed || got.Version != next.Version {
		t.Errorf("a stale writer changed the record to %v", got.State)
	}
}

func oneReplacer(t testing.TB, x *bench) { // I3, CC-11
	made := x.create(running("k"))
	const racers = 32
	var wg sync.WaitGroup
	var mu sync.Mutex
	var winners []stet.Version
	for range racers {
		wg.Go(func() {
			h := made.Head
			h.Version, h.DueIn, h.Attempt = draw(), time.Minute, 2
			_, err := x.store.Replace(x.ctx, made.Version, h, nil)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				winners = append(winners, h.Version)
			case !errors.Is(err, stet.ErrStale):
				t.Errorf("Replace: %v", err)
			}
		})
	}
	wg.Wait()
	if len(winners) != 1 || x.get(made.ID).Version != winners[0] {
		t.Fatalf("%d racers replaced the record", len(winners))
	}
}

func deleteLaw(t testing.TB, x *bench) {
	made := x.create(running("k"))
	if err := x.store.Delete(x.ctx, made.ID, draw()); !errors.Is(err, stet.ErrStale) {
		t.Fatalf("Delete with another version: %v, want ErrStale", err)
	}
	x.get(made.ID)
	if err := x.store.Delete(x.ctx, made.ID, made.Version); err != nil {
		t.Fatal(err)
	}
	if heads, _, err := x.store.Due(x.ctx, stet.Query{}); err != nil || len(heads) != 0 {
		t.Errorf("a deleted record is due: %v, %v", heads, err)
	}
}

func boundaries(t testing.TB, x *bench) { // SC-08, SE-01, SE-03
	ids := []stet.ID{
		{Scope: "a", Key: "b:c"}, {Scope: "a:b", Key: "c"}, {Scope: "a", Key: "b\x00c"}, {Scope: "a\x00b", Key: "c"},
		{Scope: "ab", Key: "c"}, {Scope: "a", Key: "bc"}, {Scope: "abc", Key: ""}, {Scope: "", Key: "abc"}, {Scope: "", Key: ""},
		{Scope: "a", Key: "b\x00\x00\x00\x00\x00\x00\x00\x00c"}, {Scope: "a\x00\x00\x00\x00\x00\x00\x00\x00b", Key: "c"},
		{Scope: "a", Key: "b/c"}, {Scope: "a/b", Key: "c"}, {Scope: "a", Key: "b%3Ac"}, {Scope: "a%3Ab", Key: "c"},
		{Scope: "a", Key: "K"}, {Scope: "a", Key: "k"}, {Scope: "a", Key: "k "}, {Scope: "a", Key: " k"}, {Scope: "A", Key: "k"},
		{Scope: "a", Key: "../../etc/passwd"}, {Scope: "a", Key: "CON"}, {Scope: "a", Key: "."}, {Scope: "..", Key: ".."},
		{Scope: "a", Key: "'; DROP TABLE stet;--"}, {Scope: "a", Key: "{a}b"}, {Scope: "a", Key: "*"}, {Scope: "a", Key: "a\nSET x"},
		{Scope: "a", Key: "\xff\xfe"}, {Scope: "\xff", Key: "\xfe"}, {Scope: "a", Key: "é"}, {Scope: "a", Key: "e\u0301"},
		{Scope: "a", Key: stet.Key(make([]byte, 255))}, {Scope: "a", Key: "%"}, {Scope: "a", Key: "_"}, {Scope: "%", Key: "k"},
	}
	for i, id := range ids {
		r := running("")
		r.ID, r.Attempt = id, i+1
		if _, err := x.store.Create(x.ctx, r); err != nil {
			t.Fatalf("Create of id %d (%q, %q): %v", i, string(id.Scope), string(id.Key), err)
		}
	}
	for i, id := range ids {
		got := x.get(id)
		if got.ID != id || got.Attempt != i+1 {
			t.Errorf("id %d (%q, %q) is answered with record %d", i, string(id.Scope), string(id.Key), got.Attempt-1)
		}
	}
}

func endedContexts(t testing.TB, x *bench) {
	ctx, cancel := context.WithCancel(x.ctx)
	cancel()
	for i := range 20 {
		r := running(fmt.Sprint(i))
		_, err := x.store.Create(ctx, r)
		_, gerr := x.store.Get(x.ctx, r.ID)
		if err == nil && gerr != nil || err != nil && gerr == nil {
			t.Fatalf("Create with an ended context said %v, and the record is there: %v", err, gerr == nil)
		}
	}
	made := x.create(running("k"))
	h := made.Head
	h.Version, h.DueIn = draw(), time.Minute
	if _, err := x.store.Replace(ctx, made.Version, h, nil); err != nil && x.get(made.ID).Version != made.Version {
		t.Errorf("Replace with an ended context said %v, and happened", err)
	}
	next := made.Head
	next.Version, next.DueIn = draw(), time.Minute
	x.within(-time.Second, "Create", func(ctx context.Context) { _, _ = x.store.Create(ctx, running("late")) })
	x.within(-time.Second, "Get", func(ctx context.Context) { _, _ = x.store.Get(ctx, made.ID) })
	x.within(-time.Second, "Replace", func(ctx context.Context) { _, _ = x.store.Replace(ctx, made.Version, next, nil) })
	x.within(-time.Second, "Due", func(ctx context.Context) { _, _, _ = x.store.Due(ctx, stet.Query{}) })
	x.within(-time.Second, "Delete", func(ctx context.Context) { _ = x.store.Delete(ctx, made.ID, made.Version) })
}

// add raises the record's Attempt by one, and tries again until no other writer is faster.
func add(ctx context.Context, s stet.Store, id stet.ID, n *stet.Note) error {
	for {
		got, err := s.Get(ctx, id)
		if err != nil {
			return err
		}
		h := got.Head
		h.Version, h.Attempt, h.DueIn, h.Note = draw(), h.Attempt+1, time.Minute, n
		if _, err := s.Replace(ctx, got.Version, h, nil); !errors.Is(err, stet.ErrStale) {
			return err
		}
	}
}

func noLostUpdate(t testing.TB, x *bench) { // I3
	made := x.create(running("k"))
	const adders, each = 8, 10
	var wg sync.WaitGroup
	for range adders {
		wg.Go(func() {
			for range each {
				if err := add(x.ctx, x.store, made.ID, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := x.get(made.ID); got.Attempt != 1+adders*each {
		t.Errorf("%d were added, and there are %d", adders*each, got.Attempt-1)
	}
}

func abandonedCalls(t testing.TB, x *bench) { // W2
	const callers = 60
	made := x.create(running("shared"))
	records := make([]stet.Record, callers)
	replaced := make([]stet.Version, callers)
	created := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		records[i] = running(key(i))
		records[i].Progress = []byte(key(i))
		replaced[i] = draw()
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(x.ctx, time.Duration(i)*100*time.Microsecond)
			defer cancel()
			_, created[i] = x.store.Create(ctx, records[i])
			h := made.Head
			h.Version, h.DueIn = replaced[i], time.Minute
			_, _ = x.store.Replace(ctx, made.Version, h, nil)
		})
	}
	wg.Wait()
	for i, r := range records {
		if created[i] == nil {
			if got := x.get(r.ID); got.Version != r.Version || string(got.Progress) != key(i) {
				t.Errorf("record %d was created, and is not there as it was given", i)
			}
			continue
		}
		got, err := x.store.Create(x.ctx, running(key(i))) // one that comes later still meets this
		if err != nil && (!errors.Is(err, stet.ErrExists) || got.Version != r.Version || string(got.Progress) != key(i)) {
			t.Errorf("a Create that said %v left %v", created[i], err)
		}
	}
	winner := x.get(made.ID)
	if winner.Version != made.Version && !slices.Contains(replaced, winner.Version) {
		t.Errorf("a version nobody wrote: %d", winner.Version)
	}
	x.replace(winner.Head, nil, completed)
}
