//go:build unix

package filestore_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/filestore"
)

func open(t *testing.T, dir string) *filestore.Store {
	t.Helper()
	s, err := filestore.Open(dir, filestore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func record(key stet.Key) stet.Record {
	return stet.Record{Head: stet.Head{ID: stet.ID{Scope: "tenant", Key: key}, Version: 41, State: stet.Running, Attempt: 1,
		Fingerprint: stet.Fingerprint{Recipe: "1 auto"}, Holder: "host:1", DueIn: time.Minute}}
}

func create(t *testing.T, s stet.Store, key stet.Key) stet.Record {
	t.Helper()
	r, err := s.Create(t.Context(), record(key))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// only returns the path of the one record's file.
func only(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "records", "*", "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%d records' files, %v; want one", len(files), err)
	}
	return files[0]
}

// refused checks that every verb refuses key, and that another key is served.
func refused(t *testing.T, s stet.Store, key stet.Key) {
	t.Helper()
	r := record(key)
	_, err := s.Create(t.Context(), r)
	_, err2 := s.Get(t.Context(), r.ID)
	_, err3 := s.Replace(t.Context(), r.Version, r.Head, &stet.Body{})
	for verb, err := range map[string]error{"Create": err, "Get": err2, "Replace": err3, "Delete": s.Delete(t.Context(), r.ID, r.Version)} {
		if !errors.Is(err, stet.ErrCorrupt) {
			t.Errorf("%s: %v, want ErrCorrupt", verb, err)
		}
	}
	other := create(t, s, "other "+key)
	if err := s.Delete(t.Context(), other.ID, other.Version); err != nil {
		t.Error(err)
	}
	if _, _, err := s.Due(t.Context(), stet.Query{}); err != nil {
		t.Errorf("Due: %v", err)
	}
	if _, _, err := stet.Lister(s.(*filestore.Store)).List(t.Context(), stet.Query{}); err != nil {
		t.Errorf("List: %v", err)
	}
}

func TestNamesAreDigests(t *testing.T) { // SE-01
	outside := t.TempDir()
	dir := filepath.Join(outside, "store")
	s := open(t, dir)
	for _, key := range []stet.Key{"../../etc/passwd", "a/b", `a\b`, "CON", ".", "..", stet.Key(make([]byte, 255)), "A", "a", "\xff", "-", "--"} {
		create(t, s, key)
	}
	allowed := regexp.MustCompile(`^(records/[0-9a-f]{2}/[0-9a-f]{64}\.json|due/[0-9]{8}T[0-9]{4}Z/[0-9T.]{22}Z-running-[0-9a-f]{16}-[0-9a-f]{64}-[0-9a-f]{16}-(k_[0-9a-f]{16})?|clock|store\.json|records/store/id|\.\./store\.seen)$`)
	files := 0
	err := filepath.WalkDir(outside, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		switch rel, _ := filepath.Rel(dir, path); {
		case err != nil:
			return err
		case path == outside:
		case d.IsDir() && info.Mode().Perm() != 0o700, !d.IsDir() && info.Mode().Perm() != 0o600:
			t.Errorf("%s has mode %v", rel, info.Mode())
		case !d.IsDir():
			if files++; !allowed.MatchString(rel) {
				t.Errorf("a file is named %s", rel)
			}
		}
		return nil
	})
	if err != nil || files != 2*12+4 {
		t.Errorf("%d files, %v; want 28", files, err)
	}
}

func TestWhatIsPlantedIsNotFollowed(t *testing.T) { // SE-02
	for name, plant := range map[string]func(path, elsewhere string) error{
		"a symbolic link to a record": func(path, elsewhere string) error { return os.Symlink(elsewhere, path) },
		"a relative symbolic link": func(path, elsewhere string) error {
			return errors.Join(os.Rename(elsewhere, filepath.Join(filepath.Dir(path), "copy")), os.Symlink("copy", path))
		},
		"a dangling symbolic link": func(path, _ string) error { return os.Symlink("/nonexistent/stet", path) },
		"a link to itself":         func(path, _ string) error { return os.Symlink(filepath.Base(path), path) },
		"a directory":              func(path, _ string) error { return os.Mkdir(path, 0o700) },
		"a pipe":                   func(path, _ string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "record.json")
			s := open(t, dir)
			create(t, s, "k")
			path := only(t, dir)
			if err := os.Rename(path, elsewhere); err != nil {
				t.Fatal(err)
			}
			if err := plant(path, elsewhere); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(elsewhere)
			refused(t, s, "k")
			if after, _ := os.ReadFile(elsewhere); string(after) != string(before) {
				t.Error("what the link points at was changed")
			}
		})
	}
}

func TestDirectoriesPlantedDoNotLeadOutside(t *testing.T) { // SE-02
	dir, outside := t.TempDir(), t.TempDir()
	s := open(t, dir)
	create(t, s, "k")
	fan := filepath.Dir(only(t, dir))
	if err := errors.Join(os.RemoveAll(fan), os.Symlink(outside, fan)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), record("k")); err == nil {
		t.Error("a record was created behind a link to another directory")
	}
	for _, planted := range []string{"tmp", "records", "due"} {
		dir := t.TempDir()
		if err := os.Symlink(outside, filepath.Join(dir, planted)); err != nil {
			t.Fatal(err)
		}
		if s, err := filestore.Open(dir, filestore.Config{}); err == nil {
			if _, err := s.Create(t.Context(), record("k")); err == nil {
				t.Errorf("with %s planted a record was created", planted)
			}
			_ = s.Close()
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
		t.Errorf("%d files outside the store, %v", len(left), err)
	}
}

func TestDamagedFileRefusesItsKeyAlone(t *testing.T) { // SF-06, W29, I5
	dir := t.TempDir()
	s := open(t, dir)
	r := record("k")
	r.Response = &stet.Response{Status: 201, Body: []byte("answer")}
	if _, err := s.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	path := only(t, dir)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damage := func(b []byte, what string, at int) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Create(t.Context(), record("k")); !errors.Is(err, stet.ErrCorrupt) {
			t.Errorf("%s at %d: %v, want ErrCorrupt", what, at, err)
		}
	}
	for i := range whole {
		damage(whole[:i], "torn", i)
		flipped := append([]byte{}, whole...)
		flipped[i] ^= 1 << (i % 8)
		damage(flipped, "a bit flipped", i)
	}
	damage(append(append([]byte{}, whole...), '\n'), "longer", len(whole))
	refused(t, s, "k")
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(t.Context(), r.ID); err != nil || string(got.Response.Body) != "answer" {
		t.Errorf("restored, and unread: %v", err)
	}
}

func TestRecordOfAnotherKeyIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	create(t, s, "k")
	path := only(t, dir)
	create(t, s, "l")
	files, err := filepath.Glob(filepath.Join(dir, "records", "*", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if file != path {
			if err := os.Rename(file, path); err != nil {
				t.Fatal(err)
			}
		}
	}
	refused(t, s, "k")
}
