package dsn

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// Of files that are another user's, SQLite says "unable to open database file (14)": what to do about
// it is said besides (Q16).
func TestFilesOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may become another user for a moment")
	}
	at := filepath.Join(t.TempDir(), "stet.db")
	d, err := Parse("sqlite:" + at)
	if err != nil {
		t.Fatal(err)
	}
	open := func(use Use) error {
		o, err := d.Open(t.Context(), use)
		if err == nil {
			err = o.Close()
		}
		return err
	}
	if err := open(Serve); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(filepath.Dir(at)), 0o711); err != nil { // where all directories of a test are
		t.Fatal(err)
	}
	for _, use := range []Use{Serve, Look} {
		for name, rights := range map[string]struct{ file, dir os.FileMode }{"the file": {0o600, 0o777}, "the directory": {0o666, 0o755}} {
			if err := errors.Join(os.Chmod(at, rights.file), os.Chmod(filepath.Dir(at), rights.dir)); err != nil {
				t.Fatal(err)
			}
			runtime.LockOSThread() // a thread has a user of its own for files
			err := errors.Join(syscall.Setfsuid(12345), open(use), syscall.Setfsuid(0))
			runtime.UnlockOSThread()
			if err == nil || !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "permission denied; run this program as the user that "+at+" belongs to") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if err := open(Look); err != nil {
		t.Error(err)
	}
}
