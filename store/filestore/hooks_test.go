package filestore

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stet-dev/stet"
)

// Backup copies the directory, and puts the copy into it again.
func Backup(t testing.TB, store stet.Store) (restore func()) {
	t.Helper()
	dir, copied := store.(*Store).root.Name(), filepath.Join(t.TempDir(), "backup")
	if err := copyTree(dir, copied); err != nil {
		t.Fatal(err)
	}
	return func() {
		clean(t, dir)
		if err := copyTree(copied, dir); err != nil {
			t.Fatal(err)
		}
	}
}

// copyTree copies what is in a directory, except for what is being written.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := filepath.Join(to, path[len(from):])
		switch {
		case d.Name() == tmpDir:
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(at, 0o700)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(at, b, 0o600)
	})
}

// Empty removes all files, as a new store has none.
func Empty(t testing.TB, store stet.Store) {
	t.Helper()
	dir := store.(*Store).root.Name()
	clean(t, dir)
	for _, made := range []string{recordsDir, dueDir} {
		if err := os.Mkdir(filepath.Join(dir, made), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// clean removes all but the directory for what is being written, which is open.
func clean(t testing.TB, dir string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Name() == tmpDir {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}
