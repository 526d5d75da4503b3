package filestore

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

func TestFullDisk(t *testing.T) { // W28
	if os.Getuid() != 0 {
		t.Skip("only root may mount a small file system")
	}
	h := &house{t: t, dir: t.TempDir()}
	if err := syscall.Mount("tmpfs", h.dir, "tmpfs", 0, "size=512k"); err != nil {
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(h.dir, 0) })
	h.Store = h.open(time.Now)
	t.Cleanup(func() { _ = h.Close() })
	first := h.create("first", time.Hour)
	ballast := filepath.Join(h.dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	before := [][]string{h.files("records"), h.files("due"), h.files("tmp")}
	if _, err := h.Create(t.Context(), running("second", time.Hour)); !errors.Is(err, stet.ErrFull) {
		t.Errorf("Create on a full disk: %v, want ErrFull", err)
	}
	big := &stet.Body{Request: bytes.Repeat([]byte("x"), 10_000)}
	if _, err := h.Replace(t.Context(), first.Version, next(first, time.Hour), big); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Replace on a full disk: %v, want ENOSPC", err)
	}
	if got, err := h.Get(t.Context(), first.ID); err != nil || got.Version != first.Version {
		t.Errorf("a full disk changed a record: %v", err)
	}
	if after := [][]string{h.files("records"), h.files("due"), h.files("tmp")}; !slices.EqualFunc(before, after, slices.Equal) {
		t.Errorf("files before %v, after %v", before, after)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	h.create("second", time.Hour)
	if _, err := h.Replace(t.Context(), first.Version, next(first, time.Hour), big); err != nil {
		t.Errorf("with room again: %v", err)
	}
}
