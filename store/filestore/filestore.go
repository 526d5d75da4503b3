package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/monotonic"
)

// Config of a Store. The zero value works.
type Config struct {
	Clock func() time.Time // default time.Now; a clock that goes back is taken to stand still
}

// Store keeps records in a directory. It is safe for concurrent use, and several processes may each have one on the same
// directory.
//
// A call whose context ends while the disk is busy returns the context's error at once; its work goes on, and may yet be done.
type Store struct {
	root  *os.Root
	clock monotonic.Clock
	fsync func(*os.File) error
	known knownDirs
	gate  *gate
	swept atomic.Int64          // when Due swept last, see sweepNow
	use   *os.File              // the directory tmp, locked: who has the store open shares it
	sick  atomic.Pointer[error] // why nothing may be believed any more

	mu     sync.RWMutex // read-held while a call works; Close waits for it
	closed bool
}

var (
	_ stet.Store     = (*Store)(nil)
	_ stet.Lister    = (*Store)(nil)
	_ stet.Counter   = (*Store)(nil)
	_ stet.Historian = (*Store)(nil)
	_ stet.Closer    = (*Store)(nil)
)

// Open opens the store in dir, and makes the directory where there is none. What killed processes left behind is removed.
func Open(dir string, c Config) (*Store, error) { return open(dir, c, (*os.File).Sync) }

func open(dir string, c Config, fsync func(*os.File) error) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = makeDir(dir, fsync)
	}
	if err != nil {
		return nil, fmt.Errorf("filestore: open: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("filestore: open: %w", err)
	}
	s := &Store{root: root, clock: monotonic.Clock{Now: c.Clock}, fsync: fsync, gate: newGate()}
	if err := s.prepare(); err != nil {
		return nil, fmt.Errorf("filestore: open %s: %w", dir, errors.Join(err, root.Close()))
	}
	return s, nil
}

// prepare makes what is missing. Who is alone cleans up first; the others wait for that.
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
			err = errors.Join(err, s.use.Close())
		}
	}()
	alone, err := exclusive.try(s.use)
	if err != nil {
		return err
	}
	if alone {
		if err := errors.Join(s.clear(), s.index()); err != nil {
			return err
		}
	}
	if err := shared.wait(s.use); err != nil { // from exclusive to shared, or behind somebody who cleans up
		return err
	}
	if _, err := s.root.Lstat(dueDir); err != nil { // who cleaned up has died of it: the next Open is alone
		return err
	}
	return errors.Join(s.sync("."), s.sweep(), s.tidyNever())
}

// Close waits for calls that work, and closes the store. Its records stay.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return errors.Join(s.use.Close(), s.root.Close())
}

func (s *Store) now() time.Time { return instant(s.clock.Micros()) }

func instant(us int64) time.Time { return time.UnixMicro(us).UTC() }

// work does what a verb has to do with files, for as long as ctx lasts: a disk that hangs must not hang its caller. What do
// is given must not be the caller's to change. name is the key to have to oneself, or empty.
func work[T any](ctx context.Context, s *Store, verb, name string, do func(ctx context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	if err := s.begin(ctx, name, func() {
		value, err := do(ctx)
		done <- result{value, err}
	}); err != nil {
		var none T
		return none, fmt.Errorf("filestore: %s: %w", verb, err)
	}
	var r result
	select {
	case r = <-done:
	case <-ctx.Done():
		select {
		case r = <-done: // both: the answer is worth more
		default:
			r.err = ctx.Err()
		}
	}
	if r.err != nil {
		r.err = fmt.Errorf("filestore: %s: %w", verb, r.err)
	}
	return r.value, r.err
}

// begin runs do beside the caller as soon as there is a place for it. Before that nothing has happened.
func (s *Store) begin(ctx context.Context, name string, do func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return fs.ErrClosed
	}
	if sick := s.sick.Load(); sick != nil {
		s.mu.RUnlock()
		return *sick
	}
	leave, err := s.gate.enter(ctx, name)
	if err != nil {
		s.mu.RUnlock()
		return err
	}
	go func() {
		defer s.mu.RUnlock()
		defer leave()
		do()
	}()
	return nil
}
