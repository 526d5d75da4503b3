package pebblestore

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/storetest"
)

// Numbers go on after the store is opened again, so that the newest stays first.
func TestOrderOutlivesTheProcess(t *testing.T) {
	dir := t.TempDir()
	for round := range 3 {
		s := open(t, dir, Config{})
		for i := range 3 {
			r := create(t, s, fmt.Sprint(round, i))
			if i == 1 {
				if _, err := s.Replace(t.Context(), r.Version, completed(r.Head), nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Append(t.Context(), stet.Change{Note: stet.Note{Who: fmt.Sprint(round, i)}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir, Config{})
	defer func() { _ = s.Close() }()
	heads, _, err := s.List(t.Context(), stet.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var keys, who []string
	for i := range heads {
		keys = append(keys, string(heads[i].Key))
	}
	changes, _, err := s.History(t.Context(), stet.HistoryQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range changes {
		who = append(who, changes[i].Note.Who)
	}
	want := []string{"2 2", "2 1", "2 0", "1 2", "1 1", "1 0", "0 2", "0 1", "0 0"}
	if !slices.Equal(keys, want) || !slices.Equal(who, want) {
		t.Errorf("records %q, changes %q, want %q", keys, who, want)
	}
}

// A removed record leaves no key behind, in whatever way it went.
func TestNothingStaysBehind(t *testing.T) {
	var clock storetest.Clock
	s := open(t, t.TempDir(), Config{Clock: clock.Now})
	defer func() { _ = s.Close() }()
	for i := range 300 {
		r := running(fmt.Sprint(i))
		r.Tag, r.DownstreamKey, r.DownstreamID = fmt.Sprintf("k_%016x", i), fmt.Sprint("down ", i), fmt.Sprint("id ", i%7)
		made, err := s.Create(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		h := completed(made.Head)
		h.Tag, h.DownstreamKey = fmt.Sprintf("k_%016x", i+1000), ""
		h, err = s.Replace(t.Context(), made.Version, h, &stet.Body{Response: &stet.Response{Status: 201}})
		if err != nil {
			t.Fatal(err)
		}
		if i%3 == 0 {
			if err := s.Delete(t.Context(), h.ID, h.Version); err != nil {
				t.Fatal(err)
			}
		}
	}
	clock.Advance(2 * time.Hour)
	if n, err := s.Reap(t.Context(), 1000); err != nil || n != 200 {
		t.Fatalf("%d reaped, %v; want 200", n, err)
	}
	it, err := s.db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = it.Close() }()
	for found := it.First(); found; found = it.Next() {
		t.Errorf("left: %q", it.Key())
	}
}

// Count with NewerThan looks through the latest keys alone: it leaves out a new life of an old key.
func TestCountOfTheLatest(t *testing.T) {
	var clock storetest.Clock
	s := open(t, "store", Config{Clock: clock.Now, fs: vfs.NewMem()})
	defer func() { _ = s.Close() }()
	old := create(t, s, "old")
	create(t, s, "between")
	clock.Advance(time.Hour)
	for i := range 3 {
		create(t, s, fmt.Sprint("new ", i))
	}
	h := completed(old.Head)
	h.CreatedAt = time.Time{}
	if _, err := s.Replace(t.Context(), old.Version, h, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		q    stet.Query
		want int
	}{
		{stet.Query{NewerThan: time.Minute}, 3},
		{stet.Query{NewerThan: time.Minute, Scope: "tenant"}, 3},
		{stet.Query{NewerThan: time.Minute, Scope: "nobody"}, 0},
		{stet.Query{NewerThan: time.Minute, Limit: 2}, 2},
		{stet.Query{NewerThan: 2 * time.Hour}, 5},
		{stet.Query{NewerThan: math.MaxInt64}, 5},
		{stet.Query{NewerThan: time.Minute, States: []stet.State{stet.Completed}}, 1},
	} {
		if n, err := s.Count(t.Context(), c.q); err != nil || n != c.want {
			t.Errorf("%+v: %d, %v; want %d", c.q, n, err, c.want)
		}
	}
}

// I13: a record is not read before it was written, even if the clock was set back while no process
// was running.
func TestClockSetBack(t *testing.T) {
	var clock storetest.Clock
	disk := vfs.NewMem()
	s := open(t, "store", Config{Clock: clock.Now, fs: disk})
	r := create(t, s, "k")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	clock.Advance(-time.Hour)
	s = open(t, "store", Config{Clock: clock.Now, fs: disk})
	defer func() { _ = s.Close() }()
	got, err := s.Get(t.Context(), r.ID)
	if err != nil || got.AsOf.Before(r.UpdatedAt) {
		t.Errorf("read at %v, written at %v, %v", got.AsOf, r.UpdatedAt, err)
	}
	heads, _, err := s.List(t.Context(), stet.Query{})
	if err != nil || len(heads) != 1 || heads[0].AsOf.Before(r.UpdatedAt) {
		t.Errorf("%v, %v", heads, err)
	}
}
