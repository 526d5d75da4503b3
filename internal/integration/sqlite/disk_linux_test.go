package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stet-dev/stet"
)

// A full disk refuses writes and forgets nothing, and when there is room again the store goes on by
// itself (W28).
func TestDiskFull(t *testing.T) {
	dir := smallDisk(t)
	s := open(t, filepath.Join(dir, "stet.db"))
	body := strings.Repeat("x", 20_000)
	acked := map[stet.ID]stet.Version{}
	fill := func() error {
		for i := range 10_000 {
			r := sample()
			r.Key = stet.Key(fmt.Sprint("key-", len(acked), "-", i))
			got, err := s.Create(t.Context(), r)
			if err != nil {
				return err
			}
			acked[r.ID] = got.Version
			h, b := completed(got, body)
			if h, err = s.Replace(t.Context(), got.Version, h, b); err != nil {
				return err
			}
			acked[r.ID] = h.Version
		}
		return nil
	}
	check := func() {
		t.Helper()
		for id, v := range acked {
			got, err := s.Get(t.Context(), id)
			if err != nil || got.Version != v {
				t.Fatalf("an acknowledged record: version %d, %v; want %d", got.Version, err, v)
			}
		}
	}
	err := fill()
	if err == nil {
		t.Fatal("the disk is not full")
	}
	if !errors.Is(err, stet.ErrFull) { // S16: nothing of it has happened
		t.Errorf("after %d records: %v", len(acked), err)
	}
	check()
	if _, err := s.Create(t.Context(), sample()); err == nil {
		r := sample() // a small one may have found room; many do not
		for err == nil {
			r.Key += "+"
			_, err = s.Create(t.Context(), r)
		}
	}
	check()
	if err := os.Remove(filepath.Join(dir, "ballast")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), sample()); err != nil {
		t.Fatalf("with room again: %v", err)
	}
	check()
}

// smallDisk mounts a file system of a few megabytes, with a file in it that can be removed.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	dir := t.TempDir()
	if err := syscall.Mount("stet", dir, "tmpfs", 0, "size=6m"); err != nil {
		t.Skipf("no small disk here: %v", err)
	}
	t.Cleanup(func() { // after the store is closed
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
