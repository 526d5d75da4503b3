//go:build unix

package filestore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

func TestFileThatIsNotSyncedChangesNothing(t *testing.T) { // W28
	h := newHouse(t)
	r := h.create("k", time.Hour)
	before := [][]string{h.files("records"), h.files("due"), h.files("tmp")}
	h.fsync = func(f *os.File) error { return &fs.PathError{Op: "sync", Path: f.Name(), Err: syscall.EIO} }
	if _, err := h.Replace(t.Context(), r.Version, next(r, time.Hour), nil); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Replace: %v, want EIO", err)
	}
	if _, err := h.Create(t.Context(), running("l", time.Hour)); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Create: %v, want EIO", err)
	}
	h.fsync = (*os.File).Sync
	if after := [][]string{h.files("records"), h.files("due"), h.files("tmp")}; !slices.EqualFunc(before, after, slices.Equal) {
		t.Errorf("files before %v, after %v", before, after)
	}
	if _, err := h.Replace(t.Context(), r.Version, next(r, time.Hour), nil); err != nil {
		t.Errorf("with the disk well again: %v", err)
	}
}

func TestDirectoryThatIsNotSyncedStopsTheStore(t *testing.T) { // W28
	h := newHouse(t)
	r := h.create("k", time.Hour)
	h.fsync = func(f *os.File) error {
		if strings.Contains(f.Name(), recordsDir+"/") {
			return syscall.EIO
		}
		return f.Sync()
	}
	if _, err := h.Replace(t.Context(), r.Version, next(r, time.Hour), nil); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Replace: %v, want EIO", err)
	}
	h.fsync = (*os.File).Sync
	if _, err := h.Get(t.Context(), r.ID); !errors.Is(err, syscall.EIO) {
		t.Errorf("what may not be on the disk was believed: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h.Store = h.open(time.Now)
	if _, err := h.Get(t.Context(), r.ID); err != nil {
		t.Errorf("opened again: %v", err)
	}
}

func TestFullDiskIsSaidOnlyWhereNothingWasStored(t *testing.T) { // W28
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		for failing, want := range map[string]bool{ // what cannot be synced, and whether nothing was stored
			tmpDir + "/":     true,  // the draft
			dueDir + "/":     true,  // its entry
			recordsDir + "/": false, // the record's name, which is there already
		} {
			h := newHouse(t)
			h.fsync = func(f *os.File) error {
				if strings.HasPrefix(f.Name(), filepath.Join(h.dir, failing)+"/") {
					return errno
				}
				return f.Sync()
			}
			r := running("k", time.Hour)
			_, err := h.Create(t.Context(), r)
			if !errors.Is(err, errno) || errors.Is(err, stet.ErrFull) != want {
				t.Errorf("%v when %s is synced: %v, ErrFull wanted: %v", errno, failing, err, want)
			}
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
			h.Store = h.open(time.Now)
			if _, err := h.Get(t.Context(), r.ID); errors.Is(err, stet.ErrNotFound) != want {
				t.Errorf("%v when %s is synced: afterwards %v", errno, failing, err)
			}
		}
	}
}

func TestHangingDiskDoesNotHangItsCallers(t *testing.T) {
	h := newHouse(t)
	r := h.create("k", time.Hour)
	hangs, heal := make(chan struct{}, 1), make(chan struct{})
	h.fsync = func(f *os.File) error { hangs <- struct{}{}; <-heal; return f.Sync() }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	write := func() {
		_, err := h.Replace(ctx, r.Version, next(r, time.Hour), nil)
		done <- err
	}
	go write()
	<-hangs
	go write() // behind the first: another turn
	for h.queued() != 2 {
		runtime.Gosched()
	}
	cancel()
	for range 2 {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Replace: %v, want the context's error", err)
		}
	}
	go func() {
		for range hangs { // let the rest of the first write through
		}
	}()
	close(heal)
	if err := h.Close(); err != nil { // waits for the work
		t.Fatal(err)
	}
	h.Store = h.open(time.Now)
	if got, err := h.Get(t.Context(), r.ID); err != nil || got.Version != r.Version {
		t.Errorf("who gave up before anything was visible changed the record to version %d (%v)", got.Version, err)
	}
	if left := h.files(tmpDir); len(left) != 0 {
		t.Errorf("left in tmp: %v", left)
	}
}

func TestAbandonedWriteDoesNotLookAtItsCallersValues(t *testing.T) {
	h := newHouse(t)
	written := make(chan []byte, 1)
	h.fsync = func(f *os.File) error {
		if filepath.Ext(f.Name()) == extension {
			b, err := os.ReadFile(f.Name())
			written <- b
			return err
		}
		return f.Sync()
	}
	ticks, reached := make(chan time.Time), make(chan struct{})
	h.clock.Now = func() time.Time { reached <- struct{}{}; return <-ticks }
	ctx, cancel := context.WithCancel(t.Context())
	r := running("k", time.Hour)
	r.Response = &stet.Response{Status: 200, Body: []byte("body"), Header: []stet.Field{{Name: "A", Value: "b"}}}
	r.Meta, r.Note, r.Request = map[string]string{"a": "b"}, &stet.Note{Who: "ops"}, []byte("request")
	done := make(chan error)
	go func() {
		_, err := h.Create(ctx, r)
		done <- err
	}()
	<-reached
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("Create: %v, want the context's error", err)
	}
	r.Response.Body[0], r.Response.Header[0].Value, r.Meta["a"], r.Note.Who, r.Request[0] = 'x', "x", "x", "x", 'x'
	ticks <- time.Now()
	got, err := decode(<-written)
	if err != nil || string(got.Response.Body) != "body" || got.Response.Header[0].Value != "b" || got.Meta["a"] != "b" || got.Note.Who != "ops" || string(got.Request) != "request" {
		t.Errorf("what its caller changed afterwards was written: %+v, %v", got, err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
}

// queued counts who has or awaits a turn.
func (h *house) queued() (n int) {
	h.gate.mu.Lock()
	defer h.gate.mu.Unlock()
	for _, t := range h.gate.turns {
		n += t.n
	}
	return n
}
