package pebblestore

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stet-dev/stet"
)

const stopped = "stopped until its process is started again"

// W28: what the tree takes for fatal while it opens is an error, and does not end the goroutine of
// the caller.
func TestFatalErrorWithinOpen(t *testing.T) {
	disk := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			if strings.Contains(op.Path, "MANIFEST") {
				return syscall.EIO
			}
		}
		return nil
	}))
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		_, err := Open("store", Config{fs: disk})
		ended <- err
	}()
	if err, returned := <-ended; !returned || err == nil || !strings.Contains(err.Error(), stopped) {
		t.Errorf("Open returned: %v, with %v", returned, err)
	}
}

// W28: while the disk hangs, a store that is being closed answers others at once, and it is closed
// when the disk has failed.
func TestCloseWhileTheDiskHangs(t *testing.T) {
	var hang atomic.Bool
	began, failed := make(chan struct{}, 1), make(chan struct{})
	s := open(t, "store", Config{fs: log(vfs.NewMem(), func() error {
		if !hang.Load() {
			return nil
		}
		select {
		case began <- struct{}{}:
		default:
		}
		<-failed
		return syscall.EIO
	})})
	r := create(t, s, "first")
	hang.Store(true)
	written, closed := make(chan error, 1), make(chan error, 1)
	go func() { _, err := s.Create(context.Background(), running("second")); written <- err }()
	<-began
	late, cancel := context.WithCancel(t.Context())
	lists := make(chan error, 1)
	go func() { _, _, err := s.List(late, stet.Query{}); lists <- err }()
	go func() { closed <- s.Close() }()
	<-s.closing
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if _, err := s.Get(ctx, r.ID); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Get of a store that is being closed: %v", err)
	}
	cancel()
	if err := <-lists; !errors.Is(err, context.Canceled) && !errors.Is(err, fs.ErrClosed) {
		t.Errorf("List that began before: %v", err)
	}
	select {
	case err := <-closed:
		t.Errorf("closed while a write was in progress: %v", err)
	case err := <-written:
		t.Errorf("the write has ended: %v", err)
	default:
	}
	close(failed)
	for what, err := range map[string]error{"Create": <-written, "Close": <-closed, "Close again": s.Close()} {
		if err == nil || !strings.Contains(err.Error(), stopped) {
			t.Errorf("%s after the disk has failed: %v", what, err)
		}
	}
}

// asked is a context that tells each time that its end is waited for.
type asked struct {
	context.Context
	times chan struct{}
}

func (c asked) Done() <-chan struct{} {
	c.times <- struct{}{}
	return nil
}

// Who waits for a record to change waits no longer than until the store is closed.
func TestCloseEndsWait(t *testing.T) {
	s := open(t, "store", Config{fs: vfs.NewMem()})
	r := create(t, s, "k")
	ctx, waited := asked{context.Background(), make(chan struct{})}, make(chan error, 1)
	go func() { waited <- s.Wait(ctx, r.ID, r.Version) }()
	for range 3 { // for the lock of the record, for the answer, and for a change
		<-ctx.times
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-waited:
		if !errors.Is(err, fs.ErrClosed) {
			t.Errorf("Wait for a store that was closed: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("Wait outlives the store")
	}
}

func TestCloseTwice(t *testing.T) {
	s := open(t, "store", Config{fs: vfs.NewMem()})
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if _, err := s.Get(t.Context(), running("k").ID); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Get of a closed store: %v", err)
	}
}

// I2: a write whose sync has failed does not count as one that is on the disk.
func TestFailedSyncStaysInDoubt(t *testing.T) {
	var broken atomic.Bool
	s := open(t, "store", Config{fs: log(vfs.NewMem(), func() error {
		if broken.Load() {
			return syscall.EIO
		}
		return nil
	})})
	broken.Store(true)
	if _, err := s.Create(t.Context(), running("k")); err == nil {
		t.Error("a write that is not on the disk was acknowledged")
	}
	s.calls.Wait()
	if s.syncing.Load() == 0 {
		t.Error("nothing is in doubt")
	}
}

// slowly is a context that is not looked at before the work of the store's calls has ended.
type slowly struct {
	context.Context
	s *Store
}

func (c slowly) Done() <-chan struct{} {
	c.s.calls.Wait()
	return nil
}

// I2: what was read in a store that stopped meanwhile is not returned: it may be no more than in
// memory.
func TestStoppedStoreReturnsNothing(t *testing.T) {
	for range 64 { // the answer and the stop are there at the same time
		s := &Store{stop: make(chan struct{})}
		got, err := work(slowly{t.Context(), s}, s, "test", nil, func() (int, error) {
			_ = s.fail("a test")
			return 1, nil
		})
		if got != 0 || err == nil || !strings.Contains(err.Error(), stopped) {
			t.Fatalf("%d, %v", got, err)
		}
	}
}

// W28: a panic of the tree in a call stops the store, and does not end the process.
func TestPanicStopsTheStore(t *testing.T) {
	s := open(t, "store", Config{fs: vfs.NewMem()})
	b := s.db.NewBatch()
	if err := errors.Join(b.Set([]byte("x"), nil, nil), s.db.Close()); err != nil {
		t.Fatal(err)
	}
	if err := s.commit(b, nil); err == nil || !strings.Contains(err.Error(), stopped) { // pebble: closed
		t.Errorf("commit: %v", err)
	}
	if _, err := s.settled(); err == nil || s.Close() == nil {
		t.Errorf("settled: %v", err)
	}
}

// Who has the answer of a call finds its record free: what is over is not left out by a Reap that
// comes right behind.
func TestAnswerFreesTheRecord(t *testing.T) {
	s := open(t, "store", Config{fs: vfs.NewMem()})
	defer func() { _ = s.Close() }()
	id := running("k").ID
	for range 10_000 {
		if _, err := s.Get(t.Context(), id); !errors.Is(err, stet.ErrNotFound) {
			t.Fatal(err)
		}
		if len(s.lock(id)) != 0 {
			t.Fatal("the answer is here, and the record is not free")
		}
	}
}
