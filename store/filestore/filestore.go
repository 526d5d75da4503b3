package filestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/inplace"
	"github.com/stet-dev/stet/internal/localdisk"
	"github.com/stet-dev/stet/internal/monotonic"
	"github.com/stet-dev/stet/internal/rest"
	"github.com/stet-dev/stet/internal/storeid"
)

// Config says how a Store works. The zero value works.
type Config struct {
	// Clock is the clock of this host. Nil means [time.Now]. If it is set back, the store's time
	// stands still, for all processes that have the directory open, but for the last second.
	Clock func() time.Time
}

// Store keeps records in a directory. It is safe for concurrent use, and several processes may open
// the same directory.
//
// If the context of a call ends while the disk is busy, the call returns the context's error at
// once. Its work goes on, and may still be done.
type Store struct {
	root  *os.Root
	clock monotonic.Shared
	ids   storeid.Gate
	files inplace.Files // the directory, by its name
	fsync func(*os.File) error
	known knownDirs
	gate  *gate
	swept atomic.Int64          // when Due swept last, see sweepNow
	use   *os.File              // the directory tmp; its lock is shared by all that have the store open
	sick  atomic.Pointer[error] // why the store has stopped
	left  []stet.Head           // by holders that are gone
	named atomic.Int64          // the audit.jsonl whose name was synced last: see add

	mu     sync.RWMutex // read-held while a call works; Close waits for it
	closed bool
}

var (
	_ stet.Store      = (*Store)(nil)
	_ stet.Lister     = (*Store)(nil)
	_ stet.Counter    = (*Store)(nil)
	_ stet.Historian  = (*Store)(nil)
	_ stet.Forgetter  = (*Store)(nil)
	_ stet.Heir       = (*Store)(nil)
	_ stet.Identified = (*Store)(nil)
	_ io.Closer       = (*Store)(nil)
)

// Open opens the store in dir. It creates the directory if there is none, and removes what killed
// processes left behind.
func Open(dir string, c Config) (*Store, error) { return open(dir, c, (*os.File).Sync) }

func open(dir string, c Config, fsync func(*os.File) error) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = makeDir(dir, fsync)
	}
	if err != nil {
		return nil, fmt.Errorf("filestore: open: %w", mended(err))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("filestore: open: %w", err)
	}
	s := &Store{root: root, clock: monotonic.Shared{Now: c.Clock}, fsync: fsync, gate: newGate()}
	if err = s.files.Add(dir, false); err == nil {
		err = s.prepare()
	}
	if err != nil {
		return nil, fmt.Errorf("filestore: open %s: %w", dir, errors.Join(mended(err), root.Close()))
	}
	return s, nil
}

// prepare creates what is missing. The first process that opens the store cleans up; the others
// wait for that.
func (s *Store) prepare() (err error) {
	for _, dir := range []string{tmpDir, recordsDir} {
		if err := s.root.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if s.use, err = s.root.Open(tmpDir); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, release(s.use))
		}
	}()
	alone, err := exclusive.try(s.use)
	if err != nil {
		return err
	}
	if err := s.writable(); err != nil {
		return err
	}
	if alone {
		if err := errors.Join(s.clear(), s.index()); err != nil {
			return err
		}
		if localdisk.Has(s.root.Name()) {
			s.left = s.running()
		}
	}
	if err := shared.wait(s.use); err != nil { // from exclusive to shared, or after another process has cleaned up
		return err
	}
	if _, err := s.root.Lstat(dueDir); err != nil { // the process that cleaned up has died: the next Open cleans up
		return err
	}
	if err := errors.Join(s.sync("."), s.sweep(), s.tidyNever()); err != nil {
		return err
	}
	return s.identify()
}

// Close waits for the calls in progress and closes the store. Its records stay.
func (s *Store) Close() error {
	s.ids.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return errors.Join(release(s.use), s.root.Close())
}

// now reads the store's clock.
func (s *Store) now() time.Time { return instant(s.clock.Micros()) }

func instant(us int64) time.Time { return time.UnixMicro(us).UTC() }

// work runs the part of a verb that uses files, for as long as ctx lasts, because a disk that hangs
// must not block the caller. The caller must not change what do uses. name is the key that only one
// call may write at a time, or empty.
func work[T any](ctx context.Context, s *Store, verb, name string, do func(ctx context.Context) (T, error)) (got T, err error) {
	leave, err := s.begin(ctx, name)
	if err == nil {
		answers := make(chan rest.Answer[T], 1)
		go func() {
			defer leave()
			value, err := do(ctx)
			answers <- rest.Answer[T]{Value: value, Err: err}
		}()
		got, err = rest.Await(ctx, answers)
	}
	return got, named(verb, err)
}

// begin returns as soon as there is a place for the call. Before that nothing has happened.
func (s *Store) begin(ctx context.Context, name string) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.RLock()
	var done func()
	switch sick := s.sick.Load(); {
	case s.closed:
		err = fs.ErrClosed
	case sick != nil:
		err = *sick
	default:
		done, err = s.gate.enter(ctx, name)
	}
	if err != nil {
		s.mu.RUnlock()
		return nil, err
	}
	return func() { done(); s.mu.RUnlock() }, nil
}
