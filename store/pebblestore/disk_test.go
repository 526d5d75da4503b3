package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stet-dev/stet"
)

func running(key string) stet.Record {
	return stet.Record{Head: stet.Head{ID: stet.ID{Scope: "tenant", Key: stet.Key(key)}, Version: stet.Version(rand.Uint64()>>1 | 1),
		State: stet.Running, Attempt: 1, Fingerprint: stet.Fingerprint{Recipe: "1 auto"}, DueIn: time.Minute}}
}

func completed(h stet.Head) stet.Head {
	h.Version, h.State, h.Status, h.DueIn = stet.Version(rand.Uint64()>>1|1), stet.Completed, 201, time.Hour
	return h
}

func open(t *testing.T, dir string, c Config) *Store {
	t.Helper()
	s, err := Open(dir, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func create(t *testing.T, s *Store, key string) stet.Record {
	t.Helper()
	r, err := s.Create(t.Context(), running(key))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// log is a disk on which what happens to the write-ahead log can be decided.
func log(fs vfs.FS, synced func() error) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			if strings.HasSuffix(op.Path, ".log") {
				return synced()
			}
		}
		return nil
	}))
}

// I5, W28: what was acknowledged outlives a loss of power, whatever else reached the disk.
func TestPowerLoss(t *testing.T) {
	disk := vfs.NewCrashableMem()
	s := open(t, "store", Config{fs: disk})
	acknowledged := map[string]stet.Version{}
	var mu sync.Mutex
	var writers sync.WaitGroup
	stop := make(chan struct{})
	for w := range 8 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				r, err := s.Create(context.Background(), running(fmt.Sprint(w, "-", i)))
				if err != nil {
					t.Error(err)
					return
				}
				h, err := s.Replace(context.Background(), r.Version, completed(r.Head), &stet.Body{Response: &stet.Response{Status: 201, Body: make([]byte, 100)}})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				acknowledged[string(h.Key)] = h.Version
				mu.Unlock()
			}
		})
	}
	for round := range 5 {
		var known map[string]stet.Version
		for len(known) < 50*(round+1) {
			mu.Lock()
			known = make(map[string]stet.Version, len(acknowledged))
			for k, v := range acknowledged {
				known[k] = v
			}
			mu.Unlock()
		}
		clone := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 25 * round, RNG: rand.New(rand.NewPCG(uint64(round), 1))})
		after := open(t, "store", Config{fs: clone})
		for key, version := range known {
			got, err := after.Get(t.Context(), stet.ID{Scope: "tenant", Key: stet.Key(key)})
			if err != nil || got.Version != version || got.Response == nil {
				t.Errorf("%s was acknowledged, and is version %d, want %d (%v)", key, got.Version, version, err)
			}
		}
		fresh, err := after.Create(t.Context(), running("fresh"))
		if err != nil || fresh.Version == 0 {
			t.Errorf("a new key after the loss: %v", err)
		}
		if err := after.Close(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	writers.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// I2: what is not on the disk is shown to no one: not by its key, nor in a list.
func TestOnlyWhatIsSyncedIsShown(t *testing.T) {
	var hold sync.RWMutex
	began := make(chan struct{}, 100)
	s := open(t, "store", Config{fs: log(vfs.NewMem(), func() error {
		select {
		case began <- struct{}{}:
		default:
		}
		hold.RLock() // the disk is busy while the test holds it
		defer hold.RUnlock()
		return nil
	})})
	defer func() { _ = s.Close() }()
	create(t, s, "first")
	for len(began) > 0 {
		<-began
	}
	hold.Lock()
	written := make(chan error, 1)
	go func() { _, err := s.Create(context.Background(), running("second")); written <- err }()
	<-began
	for name, look := range map[string]func(ctx context.Context) error{
		"Get":   func(ctx context.Context) error { _, err := s.Get(ctx, running("second").ID); return err },
		"List":  func(ctx context.Context) error { _, _, err := s.List(ctx, stet.Query{}); return err },
		"Count": func(ctx context.Context) error { _, err := s.Count(ctx, stet.Query{}); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := look(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s did not wait for the disk: %v", name, err)
		}
		cancel()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	if _, err := s.Get(ctx, running("first").ID); err != nil {
		t.Errorf("a record that is on the disk waits for another: %v", err)
	}
	cancel()
	hold.Unlock()
	if err := <-written; err != nil {
		t.Error(err)
	}
	if heads, _, err := s.List(t.Context(), stet.Query{}); err != nil || len(heads) != 2 {
		t.Errorf("%d are listed, %v", len(heads), err)
	}
}

// W28: after an error of the disk nothing is believed, and no call hangs.
func TestDiskErrorStopsTheStore(t *testing.T) {
	disk := vfs.NewCrashableMem()
	var broken errorfs.Toggle
	broken.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
		if strings.HasSuffix(op.Path, ".log") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return syscall.EIO
		}
		return nil
	})
	s := open(t, "store", Config{fs: errorfs.Wrap(disk, &broken)})
	r := create(t, s, "k")
	broken.On()
	if _, err := s.Replace(t.Context(), r.Version, completed(r.Head), nil); err == nil {
		t.Fatal("a write that is not on the disk was acknowledged")
	}
	broken.Off()
	for name, err := range map[string]error{
		"Get":    func() error { _, err := s.Get(t.Context(), r.ID); return err }(),
		"Create": func() error { _, err := s.Create(t.Context(), running("other")); return err }(),
		"Due":    func() error { _, _, err := s.Due(t.Context(), stet.Query{}); return err }(),
		"Append": s.Append(t.Context(), stet.Change{}),
		"Close":  s.Close(),
	} {
		if err == nil || !strings.Contains(err.Error(), "stopped until its process is started again") {
			t.Errorf("%s of a stopped store: %v", name, err)
		}
	}
	again := open(t, "store", Config{fs: disk.CrashClone(vfs.CrashCloneCfg{})})
	defer func() { _ = again.Close() }()
	if got, err := again.Get(t.Context(), r.ID); err != nil || got.Version != r.Version {
		t.Errorf("opened again: version %d, %v", got.Version, err)
	}
}

func TestOneProcessAtATime(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Config{})
	defer func() { _ = s.Close() }()
	if _, err := Open(dir, Config{}); err == nil || !strings.Contains(err.Error(), "one process at a time") {
		t.Errorf("opened twice: %v", err)
	}
}

// LM-08, W28: new keys are refused before the disk is full, and what runs can be completed; when
// there is room again, new keys are accepted.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may mount a small file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=160m"); err != nil {
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	s := open(t, filepath.Join(dir, "store"), Config{Reserve: 24 << 20})
	defer func() { _ = s.Close() }()
	body := &stet.Body{Response: &stet.Response{Status: 201, Body: make([]byte, 10_000)}}
	var begun []stet.Record
	for i := range 200 {
		begun = append(begun, create(t, s, fmt.Sprint("early ", i)))
	}
	filler := filepath.Join(dir, "filler")
	var usage syscall.Statfs_t
	if err := syscall.Statfs(dir, &usage); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filler, make([]byte, int64(usage.Bavail)*usage.Bsize-(2<<20)), 0o600); err != nil { // another program's
		t.Fatal(err)
	}
	refused := func() bool {
		_, err := s.Create(t.Context(), running(fmt.Sprint("late ", rand.Uint64())))
		if err != nil && !errors.Is(err, stet.ErrFull) {
			t.Fatalf("Create on a full disk: %v, want ErrFull", err)
		}
		return err != nil
	}
	for !refused() {
		if t.Context().Err() != nil {
			t.Fatal("the disk is full, and new keys are accepted")
		}
	}
	for _, r := range begun {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if _, err := s.Replace(ctx, r.Version, completed(r.Head), body); err != nil {
			t.Errorf("what ran cannot be completed: %v", err)
		}
		cancel()
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for refused() {
		if time.Now().After(deadline) {
			t.Fatal("there is room again, and new keys are refused")
		}
	}
	if got, err := s.Get(t.Context(), begun[0].ID); err != nil || got.State != stet.Completed {
		t.Errorf("%v, %v", got.State, err)
	}
}
