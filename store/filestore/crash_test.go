//go:build unix

package filestore

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
)

// These tests make, by hand, what a crash or a failing disk leaves behind at each step of a write.

type house struct {
	*Store
	t   *testing.T
	dir string
}

func newHouse(t *testing.T) *house {
	h := &house{t: t, dir: t.TempDir()}
	h.Store = h.open(time.Now)
	return h
}

func (h *house) open(clock func() time.Time) *Store {
	h.t.Helper()
	s, err := Open(h.dir, Config{Clock: clock})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = s.Close() })
	return s
}

var versions atomic.Uint64

func running(key stet.Key, dueIn time.Duration) stet.Record {
	return stet.Record{Head: stet.Head{ID: stet.ID{Scope: "tenant", Key: key}, Version: stet.Version(versions.Add(1)),
		State: stet.Running, Attempt: 1, Fingerprint: stet.Fingerprint{Recipe: "1 auto"}, DueIn: dueIn}}
}

func (h *house) create(key stet.Key, dueIn time.Duration) stet.Record {
	h.t.Helper()
	r, err := h.Create(h.t.Context(), running(key, dueIn))
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

func (h *house) due() []stet.Head {
	h.t.Helper()
	heads, _, err := h.Due(h.t.Context(), stet.Query{})
	if err != nil {
		h.t.Fatal(err)
	}
	return heads
}

func next(r stet.Record, dueIn time.Duration) stet.Head {
	r.Version, r.DueIn = stet.Version(versions.Add(1)), dueIn
	return r.Head
}

// files lists what is in a directory of the store, by name.
func (h *house) files(dir string) (names []string) {
	h.t.Helper()
	err := filepath.WalkDir(filepath.Join(h.dir, dir), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimPrefix(path, h.dir+"/"))
		}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return names
}

func TestEntriesLeftByACrashAreTidied(t *testing.T) {
	h := newHouse(t)
	unborn := running("unborn", 0) // listed, and the process died before the record had its name
	codec.Stamp(&unborn.Head, &stet.Head{}, h.now())
	d, err := h.draft(&unborn, nameOf(unborn.ID))
	if err != nil {
		t.Fatal(err)
	}
	old := h.create("moved", 0)
	oldEntry := entryOf(&old.Head, nameOf(old.ID))
	if err := h.root.Link(oldEntry, "tmp/kept"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Replace(t.Context(), old.Version, next(old, time.Hour), nil); err != nil {
		t.Fatal(err)
	}
	if err := h.root.Rename("tmp/kept", oldEntry); err != nil { // replaced, and the process died before the old entry went
		t.Fatal(err)
	}
	live := h.create("live", 0)

	isLive := func(heads []stet.Head) bool { return len(heads) == 1 && heads[0].Version == live.Version }
	if heads := h.due(); !isLive(heads) {
		t.Errorf("%d are due, want the one that is", len(heads))
	}
	if entries := h.files(dueDir); !slices.Contains(entries, d.entry) || slices.Contains(entries, oldEntry) {
		t.Errorf("a write under way lost its entry, or a dead one kept it: %d entries", len(entries))
	}
	d.close() // the process is dead: the kernel ends its lock
	if heads := h.due(); !isLive(heads) || slices.Contains(h.files(dueDir), d.entry) {
		t.Errorf("%d are due; the dead entry stays: %v", len(heads), slices.Contains(h.files(dueDir), d.entry))
	}
	if n, err := h.Count(t.Context(), stet.Query{}); err != nil || n != 2 {
		t.Errorf("%d records are counted (%v), want 2", n, err)
	}
}

func TestWriteUnderWayBecomesDue(t *testing.T) { // an entry stands before its record does: Due must not take it away
	h := newHouse(t)
	r := running("k", 0)
	codec.Stamp(&r.Head, &stet.Head{}, h.now())
	d, err := h.draft(&r, nameOf(r.ID))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if heads := h.due(); len(heads) != 0 {
			t.Fatal("a record that is not there is due")
		}
	}
	if err := h.link(d.temp, pathOf(nameOf(r.ID))); err != nil {
		t.Fatal(err)
	}
	if heads := h.due(); len(heads) != 0 { // it has its name, but it may not be believed yet
		t.Error("a record that may not be on the disk is due")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := h.Get(ctx, r.ID); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a record that may not be on the disk was read: %v", err)
	}
	d.close()
	if heads := h.due(); len(heads) != 1 {
		t.Errorf("%d are due, want 1", len(heads))
	}
}

// A child process has a copy of every open file until it runs its program, and with a copy the lock
// goes on. The copies here are those of children that were started while a file was synced.
func TestAChildThatIsBeingStartedHoldsNoLock(t *testing.T) {
	h := newHouse(t)
	h.fsync = func(f *os.File) error {
		c, err := f.SyscallConn()
		if err != nil {
			return err
		}
		failed := c.Control(func(fd uintptr) {
			var copied int
			if copied, err = syscall.Dup(int(fd)); err == nil {
				t.Cleanup(func() { _ = syscall.Close(copied) })
			}
		})
		return cmp.Or(failed, err, f.Sync())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r := h.create("k", 0)
	if heads := h.due(); len(heads) != 1 {
		t.Errorf("%d are due, want the record that was created", len(heads))
	}
	head := noted(r, "seen")
	if _, err := h.Replace(ctx, r.Version, head, nil); err != nil {
		t.Errorf("a record that was created: %v", err)
	}
	if _, err := h.Replace(ctx, r.Version, head, nil); !errors.Is(err, stet.ErrStale) {
		t.Errorf("a record that was replaced: %v, want ErrStale", err)
	}
	if changes, _, err := h.History(ctx, stet.HistoryQuery{}); err != nil || len(changes) != 1 {
		t.Errorf("%d changes are in the history (%v), want 1", len(changes), err)
	}
	if err := h.Delete(ctx, r.ID, head.Version); err != nil {
		t.Errorf("a record that was replaced with a note: %v", err)
	}
}

func TestDueIsMadeFromTheRecords(t *testing.T) {
	h := newHouse(t)
	for _, key := range []stet.Key{"a", "b", "c"} {
		h.create(key, 0)
	}
	h.create("later", time.Hour)
	h.create("never", stet.Never)
	entries := h.files(dueDir)
	if err := errors.Join(h.Close(), os.RemoveAll(filepath.Join(h.dir, dueDir))); err != nil {
		t.Fatal(err)
	}
	h.Store = h.open(time.Now)
	if made := h.files(dueDir); !slices.Equal(made, entries) {
		t.Errorf("made again: %d entries, before %d", len(made), len(entries))
	}
	if heads := h.due(); len(heads) != 3 {
		t.Errorf("%d are due, want 3", len(heads))
	}
}

func TestCopyOfTheDirectoryIsAStore(t *testing.T) { // a backup does not keep hard links
	h := newHouse(t)
	r := h.create("k", 0)
	copied := &house{t: t, dir: filepath.Join(t.TempDir(), "copy")}
	if err := os.CopyFS(copied.dir, os.DirFS(h.dir)); err != nil {
		t.Fatal(err)
	}
	copied.Store = copied.open(time.Now)
	for range 2 { // finding does not tidy away
		if heads := copied.due(); len(heads) != 1 {
			t.Fatalf("%d are due in the copy, want 1", len(heads))
		}
	}
	if _, err := copied.Replace(t.Context(), r.Version, next(r, time.Hour), nil); err != nil {
		t.Fatal(err)
	}
	if heads := copied.due(); len(heads) != 0 {
		t.Errorf("%d are due after renewing", len(heads))
	}
}

func TestTimeOfARecordDoesNotGoBack(t *testing.T) { // CR-16, W10
	h := newHouse(t)
	r := h.create("k", time.Minute)
	h.Store = h.open(func() time.Time { return time.Now().Add(-time.Hour) })
	got, err := h.Replace(t.Context(), r.Version, next(r, time.Minute), nil)
	if err != nil || got.UpdatedAt.Before(r.UpdatedAt) || got.DueAt.Before(r.DueAt) {
		t.Errorf("updated at %v after %v, due at %v after %v (%v)", got.UpdatedAt, r.UpdatedAt, got.DueAt, r.DueAt, err)
	}
}

func TestFileThatWasReplacedIsNotTakenForTheRecord(t *testing.T) { // opened before, locked after: its lock protects nothing
	h := newHouse(t)
	r := h.create("k", time.Hour)
	path := pathOf(nameOf(r.ID))
	before, err := h.root.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = before.Close() }()
	if err := h.still(path, before); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Replace(t.Context(), r.Version, next(r, time.Hour), nil); err != nil {
		t.Fatal(err)
	}
	if err := h.still(path, before); !errors.Is(err, errBusy) {
		t.Errorf("the file that was replaced: %v", err)
	}
}

func TestLockHeldByAStoppedProcessRefusesItsKeyAlone(t *testing.T) {
	h := newHouse(t)
	r := h.create("k", time.Hour)
	stopped, err := os.Open(filepath.Join(h.dir, pathOf(nameOf(r.ID))))
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := exclusive.try(stopped); !ok || err != nil {
		t.Fatal("not locked", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := h.Replace(ctx, r.Version, next(r, time.Hour), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Replace of a record that is locked: %v", err)
	}
	h.create("other", time.Hour)
	if err := stopped.Close(); err != nil { // as the kernel does when the process is killed
		t.Fatal(err)
	}
	if _, err := h.Replace(t.Context(), r.Version, next(r, time.Hour), nil); err != nil {
		t.Errorf("Replace of a record whose locker is gone: %v", err)
	}
	if err := h.Close(); err != nil || h.queued() != 0 {
		t.Errorf("%d turns are left behind (%v)", h.queued(), err)
	}
}
