package pebblestore

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
	"github.com/stet-dev/stet/store/storetest"
)

// lines are what is written to a log.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	select {
	case l <- string(p):
	default:
	}
	return len(p), nil
}

// flipped changes a byte in each 512 of the first half of a file.
func flipped(t *testing.T, disk vfs.FS, name string) {
	t.Helper()
	info, err := disk.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := disk.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	for at := int64(100); at < info.Size()/2; at += 512 {
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, at); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 0xff
		if _, err := f.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// W28: damaged blocks refuse their records, and what has to pass them. The store goes on, and can
// be opened again.
func TestDamagedBlocks(t *testing.T) {
	disk := vfs.NewMem()
	s := open(t, "store", Config{fs: disk})
	const n = 300
	for i := range n {
		r := running(fmt.Sprintf("secret-%03d", i))
		r.TraceID = rand.Text() + rand.Text() + rand.Text() + rand.Text()
		if _, err := s.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.db.Flush(), s.Close()); err != nil {
		t.Fatal(err)
	}
	names, err := disk.List("store")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			flipped(t, disk, disk.PathJoin("store", name))
		}
	}
	for range 2 {
		told := make(lines, 100)
		s = open(t, "store", Config{fs: disk, Logger: slog.New(slog.NewTextHandler(told, nil))})
		good, bad := 0, 0
		for i := 0; i < n; i += 10 { // the tree looks for the bit that may have changed: that takes its time
			switch _, err := s.Get(t.Context(), running(fmt.Sprintf("secret-%03d", i)).ID); {
			case err == nil:
				good++
			case errors.Is(err, stet.ErrCorrupt):
				bad++
			default:
				t.Fatal(err)
			}
		}
		if good == 0 || bad == 0 {
			t.Errorf("%d records are read, and %d are not", good, bad)
		}
		_, _, due := s.Due(t.Context(), stet.Query{})
		_, _, list := s.List(t.Context(), stet.Query{})
		_, count := s.Count(t.Context(), stet.Query{Limit: n})
		_, reap := s.Reap(t.Context(), n)
		for what, err := range map[string]error{"List": list, "Count": count} {
			if !errors.Is(err, stet.ErrCorrupt) {
				t.Errorf("%s: %v", what, err)
			}
		}
		for what, err := range map[string]error{"Due": due, "Reap": reap} { // they may not come so far
			if err != nil && !errors.Is(err, stet.ErrCorrupt) {
				t.Errorf("%s: %v", what, err)
			}
		}
		r := create(t, s, rand.Text())
		if got, err := head(s.db, r.ID); err != nil || got.number <= n {
			t.Errorf("a new record has the number %d, %v", got.number, err)
		}
		if _, err := s.Replace(t.Context(), r.Version, completed(r.Head), nil); err != nil {
			t.Error(err)
		}
		for line := ""; !strings.Contains(line, ".sst"); {
			if line = <-told; strings.Contains(line, "secret") {
				t.Errorf("the log was told: %s", line)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// set writes to the tree behind the store's back.
func set(t *testing.T, s *Store, key, value []byte) {
	t.Helper()
	if err := s.db.Set(key, value, pebble.Sync); err != nil {
		t.Fatal(err)
	}
}

func keysOf(heads []stet.Head, _ string, err error) string {
	var keys []string
	for i := range heads {
		keys = append(keys, string(heads[i].Key))
	}
	slices.Sort(keys)
	return fmt.Sprint(keys, err)
}

// What a damaged record leaves in the indexes says nothing of a later one with its key.
func TestWhatADamagedRecordLeaves(t *testing.T) {
	var clock storetest.Clock
	s := open(t, "store", Config{Clock: clock.Now, fs: vfs.NewMem()})
	defer func() { _ = s.Close() }()
	r := running("k")
	r.State, r.Status, r.Tag, r.DownstreamKey = stet.Completed, 201, "k_0123456789abcdef", "old"
	if _, err := s.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	set(t, s, keyOf(headKey, r.ID), sealed([]byte("another's"), []byte{codec.Format}))
	clock.Advance(time.Hour)
	if n, err := s.Reap(t.Context(), 10); n != 1 || err != nil {
		t.Fatalf("%d reaped, %v", n, err)
	}
	if n, err := s.Count(t.Context(), stet.Query{}); n != 0 || err != nil {
		t.Errorf("%d are counted when all are gone, %v", n, err)
	}
	again := running("k")
	again.Tag, again.DownstreamKey = "k_fedcba9876543210", "new"
	made, err := s.Create(t.Context(), again)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	find := func(name string) string { heads, err := s.Find(t.Context(), name); return keysOf(heads, "", err) }
	list := func(q stet.Query) string { return keysOf(s.List(t.Context(), q)) }
	check("Find of the old name", find("old"), "[] <nil>")
	check("Find of the new name", find("new"), "[k] <nil>")
	check("List by the old tag", list(stet.Query{Tag: r.Tag}), "[] <nil>")
	check("List by the new tag", list(stet.Query{Tag: again.Tag}), "[k] <nil>")

	// Entries of another number, of another class, and of another instant.
	id, over := codec.AppendID(nil, r.ID), byte(class(stet.Completed)|reapable)
	set(t, s, number([]byte{listKey, byte(classOf(&made.Head))}, 999), id)
	set(t, s, number([]byte{listKey, over}, 1000), id)
	set(t, s, append(number([]byte{dueKey, byte(classOf(&made.Head))}, 1), id...), nil)
	set(t, s, append(number([]byte{dueKey, over}, 1), id...), nil)
	clock.Advance(time.Hour)
	check("List", list(stet.Query{}), "[k] <nil>")
	check("Due", keysOf(s.Due(t.Context(), stet.Query{})), "[k] <nil>")
	if n, err := s.Reap(t.Context(), 10); n != 0 || err != nil {
		t.Errorf("%d reaped by an entry that is not the record's, %v", n, err)
	}
	check("List after Reap", list(stet.Query{}), "[k] <nil>")
	if _, err := value(s.db, append(number([]byte{dueKey, over}, 1), id...)); !errors.Is(err, stet.ErrNotFound) {
		t.Errorf("the entry stays: %v", err)
	}
}

// A key that no version of the store wrote ends no walk, and does not keep the store closed.
func TestForeignKeys(t *testing.T) {
	disk := vfs.NewMem()
	s := open(t, "store", Config{fs: disk})
	r := create(t, s, "k")
	c := byte(classOf(&r.Head))
	for _, key := range [][]byte{{listKey, c}, {listKey, c, 0xff}, {dueKey, c, 0}, {dueKey, c, 0xff}, {changeKey, 0xff}, {listKey, c | byte(reapable), 1}} {
		set(t, s, key, nil)
	}
	for range 2 {
		for _, oldest := range []bool{false, true} {
			if got := keysOf(s.List(t.Context(), stet.Query{Oldest: oldest})); got != "[k] <nil>" {
				t.Errorf("List: %s", got)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, "store", Config{fs: disk})
	}
	if next := create(t, s, "l"); next.Version == 0 {
		t.Error("no version")
	}
	_ = s.Close()
}

// The changes of a record are found without those of records whose keys begin with its key.
func TestChangesOfOneRecord(t *testing.T) {
	s := open(t, "store", Config{fs: vfs.NewMem()})
	defer func() { _ = s.Close() }()
	short := stet.ID{Scope: "tenant", Key: "k"}
	for _, key := range []stet.Key{"k", "kk", "k\x00\x00\x00\x00\x00\x00\x00\x00", "kkkkkkkkk", ""} {
		id := stet.ID{Scope: "tenant", Key: key}
		if id != short && bytes.HasPrefix(changesOf(id), changesOf(short)) {
			t.Errorf("the changes of %q are among those of %q", key, short.Key)
		}
		if err := s.Append(t.Context(), stet.Change{ID: id, Note: stet.Note{Who: string(key)}}); err != nil {
			t.Fatal(err)
		}
	}
	visited := 0
	if err := eachKey(s.db, changesOf(short), "", true, func(string) (bool, error) { visited++; return true, nil }); err != nil || visited != 1 {
		t.Errorf("%d keys were read, %v", visited, err)
	}
	if changes, _, err := s.History(t.Context(), stet.HistoryQuery{ID: short}); err != nil || len(changes) != 1 || changes[0].Note.Who != "k" {
		t.Errorf("%v, %v", changes, err)
	}
}
