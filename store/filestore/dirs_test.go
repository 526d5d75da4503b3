//go:build unix

package filestore

import (
	"errors"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// syncs lists the directories that are synced while do runs, as the store names them. Those in
// failing are not.
func (h *house) syncs(do func(), failing ...string) (dirs []string) {
	h.fsync = func(f *os.File) error {
		dir, err := filepath.Rel(h.dir, f.Name())
		if err != nil {
			return err
		}
		if dirs = append(dirs, dir); slices.Contains(failing, dir) {
			return syscall.EIO
		}
		return f.Sync()
	}
	defer func() { h.fsync = (*os.File).Sync }()
	do()
	return dirs
}

// sibling is a key whose record is in the same directory as that of key.
func sibling(key stet.Key) stet.Key {
	dir := path.Dir(pathOf(nameOf(running(key, 0).ID)))
	for i := 0; ; i++ {
		if other := stet.Key(strconv.Itoa(i)); path.Dir(pathOf(nameOf(running(other, 0).ID))) == dir {
			return other
		}
	}
}

func TestDirectoryOfAnotherProcessIsSynced(t *testing.T) { // W28: it may have died before it did that itself
	h := newHouse(t)
	r := running("k", time.Hour)
	if err := h.root.Mkdir(path.Dir(pathOf(nameOf(r.ID))), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, failing := range []string{dueDir, recordsDir} {
		h.syncs(func() {
			if _, err := h.Create(t.Context(), r); !errors.Is(err, syscall.EIO) {
				t.Errorf("Create in a directory whose name may be lost: %v, want EIO", err)
			}
		}, failing)
		if _, err := h.Get(t.Context(), r.ID); !errors.Is(err, stet.ErrNotFound) {
			t.Errorf("afterwards: %v, want ErrNotFound", err)
		}
	}
	again := func(key stet.Key) []string { return h.syncs(func() { h.create(key, time.Hour) }) }
	if dirs := again("k"); !slices.Contains(dirs, recordsDir) {
		t.Errorf("what failed is not tried again: %v", dirs)
	}
	if dirs := again(sibling("k")); slices.Contains(dirs, recordsDir) || slices.Contains(dirs, dueDir) {
		t.Errorf("what was synced is synced again: %v", dirs)
	}
}

func TestDirectoryThatWasRemovedIsSyncedAgain(t *testing.T) {
	h, now := newHouse(t), time.Now()
	h.clock.Now = func() time.Time { return now }
	r := h.create("k", time.Hour)
	bucket := dueDir + "/" + bucketOf(r.DueAt)
	if err := h.Delete(t.Context(), r.ID, r.Version); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour + bucketWidth)
	if h.due(); !h.has(bucket) {
		t.Error("an empty directory goes as soon as its time is over: others may still rely on it")
	}
	if h.known.has(bucket, now) {
		t.Error("a directory whose time is over is relied on")
	}
	now = now.Add(bucketGrace + bucketWidth)
	if h.due(); h.has(bucket) {
		t.Error("an empty directory stays for ever")
	}
	if h.create("l", time.Hour); h.known.has(bucket, time.Time{}) || len(maps.Collect(h.known.dirs.Range)) == 0 {
		t.Error("what is over is remembered for ever")
	}
}

func TestDirectoryThatIsTakenAwayIsMadeAgain(t *testing.T) {
	h := newHouse(t)
	r := h.create("k", time.Hour)
	if err := h.Delete(t.Context(), r.ID, r.Version); err != nil {
		t.Fatal(err)
	}
	if err := h.root.Remove(path.Dir(pathOf(nameOf(r.ID)))); err != nil {
		t.Fatal(err)
	}
	if dirs := h.syncs(func() { h.create("k", time.Hour) }); !slices.Contains(dirs, recordsDir) {
		t.Errorf("synced: %v", dirs)
	}
}

func TestOpenSyncsWhatIsAboveTheStore(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(base, "there"), 0o700), os.Symlink("there", filepath.Join(base, "link"))); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		dir     string
		failing string
		errno   syscall.Errno
		opens   bool
	}{
		"made by somebody":             {"there", ".", syscall.EIO, false},
		"by another name":              {"link", ".", syscall.EIO, false},
		"its own":                      {"there", "there", syscall.EIO, false},
		"cannot ever be synced":        {"there", ".", syscall.EINVAL, true},
		"is not ours":                  {"there", ".", syscall.EACCES, true},
		"made now, above":              {"a/b/c", ".", syscall.EIO, false},
		"made now, between":            {"d/e/f", "d/e", syscall.EIO, false},
		"made now, cannot be synced":   {"g/h", "g", syscall.EINVAL, false},
		"made now, and nothing failed": {"i/j/k", "", 0, true},
	} {
		s, err := open(filepath.Join(base, c.dir), Config{}, func(f *os.File) error {
			if c.failing != "" && filepath.Clean(f.Name()) == filepath.Join(base, c.failing) {
				return c.errno
			}
			return f.Sync()
		})
		if (err == nil) != c.opens || err != nil && !errors.Is(err, c.errno) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			err = s.Close()
		}
		if c.opens && err != nil {
			t.Error(err)
		}
	}
}
