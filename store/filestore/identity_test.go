package filestore

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// refused waits until the store takes no new key, and returns why.
func (h *house) refused() (err error) {
	h.t.Helper()
	for end := time.Now().Add(20 * time.Second); !errors.Is(err, stet.ErrForeign); {
		if time.Now().After(end) {
			h.t.Fatalf("it takes new keys (%v)", err)
		}
		_, err = h.Create(h.t.Context(), running(stet.Key("unseen-"+time.Now().String()), time.Hour))
	}
	return err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What may happen to the directory while the store is open, and the words by which it is refused
// (S04).
func TestDirectoryThatIsExchanged(t *testing.T) {
	for what, x := range map[string]struct {
		do   func(dir string) error
		says string
	}{
		"moved":   {func(dir string) error { return os.Rename(dir, dir+".old") }, "is not there any more"},
		"removed": {os.RemoveAll, "is not there any more"},
		"moved, and another put in its place": {func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700))
		}, "another one than the one that is open has the name"},
		"a link that is turned": {func(dir string) error {
			return errors.Join(os.Remove(dir), os.Mkdir(dir+".new", 0o700), os.Symlink(filepath.Base(dir)+".new", dir))
		}, "another one than the one that is open has the name"},
	} {
		t.Run(what, func(t *testing.T) {
			h := &house{t: t, dir: filepath.Join(t.TempDir(), "records")}
			if strings.Contains(what, "link") {
				must(t, errors.Join(os.Mkdir(h.dir+".true", 0o700), os.Symlink("records.true", h.dir)))
			}
			h.Store = h.open(time.Now)
			h.create("kept", time.Hour)
			must(t, x.do(h.dir))
			if err := h.refused(); !strings.Contains(err.Error(), x.says) {
				t.Errorf("it says %v", err)
			}
			_ = h.Close()
			if what == "removed" || what == "moved" {
				return // see TestDirectoryThatIsGoneIsNotNew
			}
			h.Store = h.open(time.Now)
			if err := h.refused(); !strings.Contains(err.Error(), "was here") {
				t.Errorf("opened again: %v", err)
			}
		})
	}
}

// A directory that is made anew under the name of one that was there is not new (S04).
func TestDirectoryThatIsGoneIsNotNew(t *testing.T) {
	h := &house{t: t, dir: filepath.Join(t.TempDir(), "records")}
	h.Store = h.open(time.Now)
	h.create("kept", time.Hour)
	must(t, errors.Join(h.Close(), os.Rename(h.dir, h.dir+".old")))
	h.Store = h.open(time.Now)
	_ = h.refused()
	must(t, errors.Join(h.Close(), os.RemoveAll(h.dir), os.Rename(h.dir+".old", h.dir)))
	h.Store = h.open(time.Now)
	h.create("put back", time.Hour)
}

// The file system is read-only, or the user has no right to write: the store is not opened, and
// says what to do (S16).
func TestDirectoryThatCannotBeWritten(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may mount a file system")
	}
	h := &house{t: t, dir: t.TempDir()}
	if err := syscall.Mount("tmpfs", h.dir, "tmpfs", 0, "size=512k"); err != nil {
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(h.dir, 0) })
	must(t, h.open(time.Now).Close())
	if err := syscall.Mount("tmpfs", h.dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Skip(err)
	}
	s, err := Open(h.dir, Config{})
	if err == nil {
		_ = s.Close()
	}
	if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "mount its file system read-write") {
		t.Errorf("Open: %v", err)
	}
	if err := mended(&fs.PathError{Op: "open", Err: fs.ErrPermission}); !strings.Contains(err.Error(), "the right to read and write") {
		t.Error(err)
	}
}

// The announcement of a change is on the disk before the change is made: a power failure leaves no
// change without its entry (S13).
func TestAnnouncementIsSyncedBeforeTheChange(t *testing.T) {
	h := newHouse(t)
	r := h.create("k", time.Hour)
	var synced []string
	h.fsync = func(f *os.File) error {
		rel, _ := filepath.Rel(h.dir, f.Name())
		b, err := h.root.ReadFile(pathOf(nameOf(r.ID)))
		must(t, err)
		if have, err := decode(b); err == nil && have.Version == r.Version {
			synced = append(synced, rel)
		}
		return f.Sync()
	}
	noted := next(r, time.Hour)
	noted.Note = &stet.Note{Who: "ops", Why: "a test"}
	if _, err := h.Replace(t.Context(), r.Version, noted, nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(synced, " "), pendingDir) {
		t.Errorf("before the change, %q are synced", synced)
	}
}

// All damage is found by reading all of it (S06).
func TestVerify(t *testing.T) {
	h := newHouse(t)
	unlisted, torn, gone, renamed := h.create("unlisted", time.Hour), h.create("torn", time.Hour), h.create("gone", time.Hour), h.create("renamed", time.Hour)
	h.change(h.create("well", time.Hour), "a reason")
	if found, err := h.Verify(t.Context()); err != nil || len(found) != 0 {
		t.Fatalf("found %q, %v", found, err)
	}
	at := func(r stet.Record) string { return filepath.Join(h.dir, pathOf(nameOf(r.ID))) }
	must(t, os.Remove(filepath.Join(h.dir, entryOf(&unlisted.Head, nameOf(unlisted.ID)))))
	must(t, os.Truncate(at(torn), 10))
	must(t, os.Remove(at(gone)))
	must(t, os.Rename(at(renamed), at(renamed)+"~"))
	must(t, os.WriteFile(filepath.Join(h.dir, auditFile), []byte("{}\n"), 0o600))
	found, err := h.Verify(t.Context())
	for _, says := range []string{pathOf(nameOf(unlisted.ID)) + " is not listed", pathOf(nameOf(torn.ID)) + ": ", pathOf(nameOf(gone.ID)) + " is listed",
		pathOf(nameOf(renamed.ID)) + "~ is not the file of any key", pathOf(nameOf(renamed.ID)) + " is listed", auditFile + " at byte 0"} {
		if !slices.ContainsFunc(found, func(text string) bool { return strings.Contains(text, says) }) {
			t.Errorf("nothing found says %q", says)
		}
	}
	if err != nil || len(found) != 6 {
		t.Errorf("found %q, %v", found, err)
	}
}

// The records are taken away, or others are put in their place, by hand: the directory is still the
// one that is open, and has its identity (S06).
func TestRecordsThatAreTakenAway(t *testing.T) {
	other := newHouse(t)
	for what, take := range map[string]func(h *house) error{
		"all in the directory": func(h *house) error { clean(t, filepath.Join(h.dir, recordsDir)); return nil },
		"the directory":        func(h *house) error { return os.RemoveAll(filepath.Join(h.dir, recordsDir)) },
		"those of another store": func(h *house) error {
			at := filepath.Join(h.dir, recordsDir)
			return errors.Join(os.RemoveAll(at), copyTree(filepath.Join(other.dir, recordsDir), at))
		},
	} {
		for _, remembered := range []bool{true, false} {
			t.Run(what, func(t *testing.T) {
				h := &house{t: t, dir: filepath.Join(t.TempDir(), "records")}
				h.Store = h.open(time.Now)
				h.create("kept", time.Hour)
				must(t, take(h))
				_ = h.refused()
				must(t, h.Close())
				if !remembered {
					must(t, os.Remove(h.dir+seenSuffix))
				}
				h.Store = h.open(time.Now)
				if err := h.refused(); !strings.Contains(err.Error(), "was here") {
					t.Errorf("opened again: %v", err)
				}
				if _, err := h.Accept(t.Context()); err != nil {
					t.Fatal(err)
				}
				h.create("accepted", time.Hour)
			})
		}
	}
}

// A store of an older version, whose records do not say whose they are, has them say so with the
// first raise of its mark.
func TestRecordsOfAnOlderVersionAreHeld(t *testing.T) {
	h := newHouse(t)
	have, err := h.stored()
	must(t, err)
	old, err := json.Marshal(have.identity)
	must(t, errors.Join(err, h.Close(), os.WriteFile(filepath.Join(h.dir, storeFile), old, 0o600), os.RemoveAll(filepath.Join(h.dir, heldDir))))
	h.Store = h.open(time.Now)
	h.create("a", time.Hour)
	if _, err := h.raise(t.Context(), stet.Identity(have.identity), "ABCDEFGH"); err != nil {
		t.Fatal(err)
	}
	if ok, err := h.held(have.ID); !ok || err != nil {
		t.Errorf("the records do not say whose they are: %v", err)
	}
	h.create("b", time.Hour)
}

// A user whose files the store's other processes could not read is refused before there is one,
// root as well, and is told as whom to come (Q16).
func TestAnotherUserIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may give files away")
	}
	h := newHouse(t)
	h.create("k", time.Hour)
	before := h.files(".")
	must(t, os.Chown(filepath.Join(h.dir, recordsDir), 12345, -1))
	s, err := Open(h.dir, Config{})
	if err == nil {
		_ = s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "belongs to user 12345, who could not read what user root (0) writes in it; run this program as that user: sudo -u '#12345'") {
		t.Errorf("Open: %v", err)
	}
	if after := h.files("."); !slices.Equal(after, before) {
		t.Errorf("there are other files than before: %q, %q", after, before)
	}
	must(t, os.Chown(filepath.Join(h.dir, recordsDir), 0, -1))
	h.open(time.Now)
}
