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
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/monotonic"
	"github.com/stet-dev/stet/internal/rest"
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
	// Logger is told when the store stops, of damaged files, and of errors of the work in the
	// background, without keys and contents. Nil means that nothing is told.
	Logger *slog.Logger

	fs vfs.FS // instead of the disk, in tests
}

const (
	memTable  = 16 << 20
	memTables = 4
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
	waits   rest.Rooms[stet.ID]
	workers workers

	sick  atomic.Pointer[error] // why the store has stopped
	stop  chan struct{}         // closed then
	stops sync.Once

	mu      sync.Mutex // of closed; held for no longer than it takes to look
	closed  bool
	closing chan struct{}  // closed by Close
	calls   sync.WaitGroup // those at work; none begins once closed is set
	gone    chan struct{}  // closed when the tree is
	goneErr error          // how that went

	log   *slog.Logger
	logMu sync.Mutex
	told  map[string]time.Time // when the log was last told of this
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
	if c.Cache < 0 || c.Reserve < 0 {
		return nil, errors.New("pebblestore: open: a negative Cache or Reserve")
	}
	s := &Store{clock: monotonic.Clock{Now: c.Clock}, seed: maphash.MakeSeed(), workers: workers{jobs: make(chan func())},
		stop: make(chan struct{}), closing: make(chan struct{}), gone: make(chan struct{}), log: c.Logger, told: map[string]time.Time{}}
	for i := range s.locks {
		s.locks[i] = make(chan struct{}, 1)
	}
	c.fs = cmp.Or(c.fs, vfs.Default)
	if err := c.fs.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("pebblestore: open: %w", err)
	}
	s.room.init(c.fs, dir, uint64(cmp.Or(c.Reserve, 64<<20)))
	o := &pebble.Options{
		FS: vfs.OnDiskFull(c.fs, s.room.exhausted), Logger: logger{s}, FormatMajorVersion: pebble.FormatNewest, CacheSize: cmp.Or(c.Cache, 64<<20),
		MemTableSize: memTable, MemTableStopWritesThreshold: memTables, L0CompactionThreshold: 4, L0StopWritesThreshold: 24,
		EventListener: &pebble.EventListener{
			// Without this, the tree ends the process: for one block, and again at each start.
			DataCorruption:  func(i pebble.DataCorruptionInfo) { s.tell("a file of the store is damaged", "file", i.Path) },
			BackgroundError: func(err error) { s.tell("work in the background failed", "cause", cause(err)) },
		},
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	started := make(chan error, 1)
	go func() { started <- s.start(dir, o) }() // Fatalf may end this goroutine, and not the caller's
	var err error
	select {
	case err = <-started:
	case <-s.stop:
		err = *s.sick.Load()
	}
	if err != nil {
		return nil, fmt.Errorf("pebblestore: open %s (one process at a time can have it open): %w", dir, err)
	}
	return s, nil
}

func (s *Store) start(dir string, o *pebble.Options) (err error) {
	defer s.caught(&err)
	if s.db, err = pebble.Open(dir, o); err != nil {
		return err
	}
	if err = s.count(); err != nil {
		err = errors.Join(err, s.db.Close())
	}
	return err
}

// count finds the last numbers that were given. Where they cannot be read, it goes on from the time
// of day in microseconds, which no count reaches: damage must not keep the store closed.
func (s *Store) count() error {
	find := func(of *atomic.Uint64, prefix ...byte) error {
		n, err := s.last(prefix)
		if errors.Is(err, stet.ErrCorrupt) {
			n, err = uint64(time.Now().UnixMicro()), nil
		}
		of.Store(max(of.Load(), n))
		return err
	}
	for _, c := range classes(nil) {
		if err := find(&s.records, listKey, byte(c)); err != nil {
			return err
		}
	}
	return find(&s.changes, changeKey)
}

// last returns the greatest number behind a prefix, or 0.
func (s *Store) last(prefix []byte) (n uint64, err error) {
	err = eachKey(s.db, prefix, "", true, func(rest string) (bool, error) {
		if len(rest) != 8 {
			return false, fmt.Errorf("%w: an index has no number", stet.ErrCorrupt)
		}
		n = binary.BigEndian.Uint64([]byte(rest))
		return false, nil
	})
	return n, err
}

// Close waits for the work of the calls in progress, and closes the store; calls that come later
// fail at once. Its records stay. A store that an error of the disk has stopped cannot be closed:
// Close returns that error.
func (s *Store) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
		go s.end()
	}
	s.mu.Unlock()
	select {
	case <-s.gone:
	case <-s.stop: // what is in progress may never end
	}
	if err := s.sick.Load(); err != nil {
		return *err
	}
	return s.goneErr
}

// end closes the tree, unless the store stops before that.
func (s *Store) end() {
	s.calls.Wait()
	if s.sick.Load() != nil {
		return
	}
	var err error
	defer s.caught(&err)
	s.goneErr = s.db.Close()
	close(s.gone)
}

// now reads the store's clock.
func (s *Store) now() time.Time { return time.UnixMicro(s.clock.Micros()).UTC() }

// fail stops the store: what is on the disk is uncertain. It returns the error of every call from
// then on.
func (s *Store) fail(why string) error {
	s.stops.Do(func() {
		err := fmt.Errorf("pebblestore: stopped until its process is started again: %s", why)
		s.sick.Store(&err)
		close(s.stop)
		s.tell("the store has stopped: its process has to be started again")
	})
	return *s.sick.Load()
}

// caught stops the store if the tree has panicked, as it does where it finds an earlier error of
// its log. It is deferred.
func (s *Store) caught(err *error) {
	if p := recover(); p != nil {
		*err = s.fail(fmt.Sprint(p))
	}
}

// tell tells the log, but not of the same more often than once a second, since work in the
// background is tried again and again. The tree holds locks: it does not wait for the log.
func (s *Store) tell(what string, about ...any) {
	if s.log == nil {
		return
	}
	s.logMu.Lock()
	defer s.logMu.Unlock()
	if last, ok := s.told[what]; !ok || time.Since(last) >= time.Second {
		s.told[what] = time.Now()
		go s.log.Error("pebblestore: "+what, about...)
	}
}

// cause says what an error is about. Its text might have keys in it.
func cause(err error) string {
	var no syscall.Errno
	switch {
	case pebble.IsCorruptionError(err):
		return "damaged data"
	case errors.As(err, &no):
		return no.Error()
	}
	return fmt.Sprintf("%T", err)
}

// logger is what the tree tells. It tells of errors from which it cannot go on, expects the process
// to end there, and may hold locks: the goroutine ends instead, and the store refuses every call.
type logger struct{ s *Store }

func (logger) Infof(string, ...any)  {}
func (logger) Errorf(string, ...any) {}

func (l logger) Fatalf(format string, args ...any) {
	_ = l.s.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

// work runs the part of a verb that may wait for the disk, for as long as ctx lasts. What do uses
// must not change after that. The lock of the record is held until do returns; id is nil for calls
// that are not about one record.
func work[T any](ctx context.Context, s *Store, verb string, id *stet.ID, do func() (T, error)) (got T, err error) {
	unlock, err := s.begin(ctx, id)
	if err != nil {
		return got, fmt.Errorf("pebblestore: %s: %w", verb, err)
	}
	answers := make(chan rest.Answer[T], 1)
	s.workers.run(func() {
		defer s.calls.Done()
		value, err := func() (T, error) {
			defer unlock() // first: who has the answer finds the record free
			return do()
		}()
		answers <- rest.Answer[T]{Value: value, Err: err}
	}, s.closing)
	got, err = rest.Await(ctx, s.stop, answers)
	if sick := s.sick.Load(); sick != nil { // then it may have seen what is not on the disk
		var none T
		got, err = none, *sick
	}
	if err != nil {
		err = fmt.Errorf("pebblestore: %s: %w", verb, err)
	}
	return got, err
}

// begin counts the call among those at work, and takes the record's lock as soon as it is free.
// Before that nothing has happened. The caller ends both.
func (s *Store) begin(ctx context.Context, id *stet.ID) (unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, fs.ErrClosed
	}
	s.calls.Add(1)
	s.mu.Unlock()
	unlock = func() {}
	if id != nil {
		lock := s.lock(*id)
		select {
		case lock <- struct{}{}:
			unlock = func() { <-lock }
		case <-s.stop:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if sick := s.sick.Load(); sick != nil {
		err = *sick
	}
	if err != nil {
		unlock()
		s.calls.Done()
	}
	return unlock, err
}

func (s *Store) lock(id stet.ID) chan struct{} {
	return s.locks[maphash.Comparable(s.seed, id)%stripes]
}

// commit writes a batch durably, and closes it, unless the batch could not be made. What it writes
// can be read before it is on the disk: see settled. If the commit does not return, what it wrote
// stays in doubt, and the tree may still use the batch: neither is deferred.
func (s *Store) commit(b *pebble.Batch, made error) (err error) {
	if made != nil {
		return made
	}
	defer s.caught(&err)
	s.syncing.Add(1)
	err = b.Commit(pebble.Sync)
	s.syncing.Add(-1)
	return errors.Join(err, b.Close())
}

// settled returns what is stored at this moment, all of it on the disk. The log is written in
// order: once an entry that comes after all that can be seen is synced, so is the rest.
func (s *Store) settled() (snap *pebble.Snapshot, err error) {
	defer s.caught(&err)
	snap = s.db.NewSnapshot()
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
