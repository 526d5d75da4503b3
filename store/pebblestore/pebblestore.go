package pebblestore

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/monotonic"
)

// Config says how a Store works. The zero value works.
type Config struct {
	// Cache is how many bytes of the files are kept in memory, beside 64 MiB for what was written
	// last. 0 means 64 MiB.
	Cache int64
	// Reserve is how many bytes of the disk new keys leave free, for the completion of those that
	// are there. 0 means 64 MiB.
	Reserve int64
	// Clock is the store's clock. Nil means [time.Now]. If it goes back, the store's time stands
	// still.
	Clock func() time.Time

	fs vfs.FS // instead of the disk, in tests
}

const (
	defaultCache   = 64 << 20
	defaultReserve = 64 << 20
	memTable       = 16 << 20
	memTables      = 4
)

// Store keeps records in a directory. It is safe for concurrent use by one process.
type Store struct {
	db      *pebble.DB
	clock   monotonic.Clock
	seed    maphash.Seed
	locks   [stripes]chan struct{}
	room    room
	records atomic.Uint64 // the last number of a record, and of a change
	changes atomic.Uint64
	syncing atomic.Int64 // writes that can be read, and may not be on the disk yet
	waits   waits

	sick  atomic.Pointer[error] // why the store has stopped
	stop  chan struct{}         // closed then
	stops sync.Once

	mu     sync.RWMutex // read-held while a call works; Close waits for it
	closed bool
}

// stripes is how many locks there are. Two records of one stripe wait for each other's sync.
const stripes = 4096

var (
	_ stet.Store     = (*Store)(nil)
	_ stet.Waiter    = (*Store)(nil)
	_ stet.Lister    = (*Store)(nil)
	_ stet.Counter   = (*Store)(nil)
	_ stet.Finder    = (*Store)(nil)
	_ stet.Historian = (*Store)(nil)
	_ stet.Reaper    = (*Store)(nil)
	_ io.Closer      = (*Store)(nil)
)

// Open opens the store in dir, and creates it if there is none. A directory that another process
// has open is refused.
func Open(dir string, c Config) (*Store, error) {
	s := &Store{clock: monotonic.Clock{Now: c.Clock}, seed: maphash.MakeSeed(), stop: make(chan struct{}), waits: waits{of: map[stet.ID]*wait{}}}
	for i := range s.locks {
		s.locks[i] = make(chan struct{}, 1)
	}
	if c.fs == nil {
		c.fs = vfs.Default
	}
	if err := c.fs.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("pebblestore: open: %w", err)
	}
	s.room.init(c.fs, dir, uint64(cmp.Or(c.Reserve, defaultReserve)))
	o := &pebble.Options{
		FS: vfs.OnDiskFull(c.fs, s.room.exhausted), Logger: logger{s}, FormatMajorVersion: pebble.FormatNewest, CacheSize: cmp.Or(c.Cache, defaultCache),
		MemTableSize: memTable, MemTableStopWritesThreshold: memTables, L0CompactionThreshold: 4, L0StopWritesThreshold: 24,
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	db, err := pebble.Open(dir, o)
	if err == nil {
		s.db = db
		if err = s.count(); err != nil {
			err = errors.Join(err, db.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("pebblestore: open %s (one process at a time can have it open): %w", dir, err)
	}
	return s, nil
}

// count finds the last numbers that were given.
func (s *Store) count() error {
	for _, c := range classes(nil) {
		n, err := s.last([]byte{listKey, byte(c)})
		if err != nil {
			return err
		}
		s.records.Store(max(s.records.Load(), n))
	}
	n, err := s.last([]byte{changeKey})
	s.changes.Store(n)
	return err
}

// last returns the greatest number behind a prefix, or 0.
func (s *Store) last(prefix []byte) (n uint64, err error) {
	it, err := s.db.NewIter(within(prefix))
	if err != nil {
		return 0, err
	}
	if it.Last() && len(it.Key()) == len(prefix)+8 {
		n = binary.BigEndian.Uint64(it.Key()[len(prefix):])
	}
	return n, errors.Join(it.Error(), it.Close())
}

// Close waits for the calls in progress and closes the store. Its records stay. A store that an
// error of the disk has stopped cannot be closed: Close returns that error.
func (s *Store) Close() error {
	if err := s.sick.Load(); err != nil {
		return *err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.db.Close()
}

// now reads the store's clock.
func (s *Store) now() time.Time { return time.UnixMicro(s.clock.Micros()).UTC() }

// fail stops the store: what is on the disk is uncertain.
func (s *Store) fail(err error) {
	s.stops.Do(func() {
		s.sick.Store(&err)
		close(s.stop)
	})
}

// logger is what the tree tells. It tells of errors from which it cannot go on, expects the process
// to end there, and may hold locks: the goroutine ends instead, and the store refuses every call.
type logger struct{ s *Store }

func (logger) Infof(string, ...any)  {}
func (logger) Errorf(string, ...any) {}

func (l logger) Fatalf(format string, args ...any) {
	l.s.fail(fmt.Errorf("pebblestore: stopped until it is opened again: "+format, args...))
	runtime.Goexit()
}

// work runs the part of a verb that may wait for the disk, for as long as ctx lasts. What do uses
// must not change after that. The locks are held until do returns; keys are "" for calls that
// change no record.
func work[T any](ctx context.Context, s *Store, verb string, id *stet.ID, do func() (T, error)) (got T, err error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	if err = s.begin(ctx, id, func() {
		value, err := do()
		done <- result{value, err}
	}); err != nil {
		return got, fmt.Errorf("pebblestore: %s: %w", verb, err)
	}
	select {
	case r := <-done:
		got, err = r.value, r.err
	case <-s.stop:
		err = *s.sick.Load()
	case <-ctx.Done():
		select {
		case r := <-done: // both: the answer is worth more
			got, err = r.value, r.err
		default:
			err = ctx.Err()
		}
	}
	if err != nil {
		err = fmt.Errorf("pebblestore: %s: %w", verb, err)
	}
	return got, err
}

// begin runs do in a goroutine as soon as the record's lock is free. Before that nothing has
// happened.
func (s *Store) begin(ctx context.Context, id *stet.ID, do func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return fs.ErrClosed
	}
	unlock := func() {}
	if id != nil {
		lock := s.lock(*id)
		select {
		case lock <- struct{}{}:
			unlock = func() { <-lock }
		case <-s.stop:
		case <-ctx.Done():
			s.mu.RUnlock()
			return ctx.Err()
		}
	}
	if err := s.sick.Load(); err != nil {
		unlock()
		s.mu.RUnlock()
		return *err
	}
	go func() {
		defer s.mu.RUnlock()
		defer unlock()
		do()
	}()
	return nil
}

func (s *Store) lock(id stet.ID) chan struct{} {
	return s.locks[maphash.Comparable(s.seed, id)%stripes]
}

// commit writes a batch durably. What it writes can be read before it is on the disk: see settled.
func (s *Store) commit(b *pebble.Batch) error {
	s.syncing.Add(1)
	defer s.syncing.Add(-1)
	return b.Commit(pebble.Sync)
}

// settled returns what is stored at this moment, all of it on the disk. The log is written in
// order: once an entry that comes after all that can be seen is synced, so is the rest.
func (s *Store) settled() (*pebble.Snapshot, error) {
	snap := s.db.NewSnapshot()
	if s.syncing.Load() == 0 {
		return snap, nil
	}
	if err := s.db.LogData(nil, pebble.Sync); err != nil {
		return nil, errors.Join(err, snap.Close())
	}
	return snap, nil
}

// within bounds an iterator to the keys that begin with prefix.
func within(prefix []byte) *pebble.IterOptions {
	return &pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)}
}

// after is the first key behind those that begin with prefix. No prefix here is all 0xff.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; ; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
}
