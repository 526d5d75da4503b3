package memstore

import (
	"cmp"
	"context"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/internal/monotonic"
	"github.com/stet-dev/stet/internal/rest"
)

// Config says how large a Store may become. The zero value works.
type Config struct {
	// MaxKeys is the largest number of records. 0 means 1,000,000.
	MaxKeys int
	// MaxHistory is the largest number of changes in the history, the latest. 0 means 100,000.
	MaxHistory int
	// Clock is the store's clock. Nil means [time.Now]. If it goes back, the store's time stands
	// still.
	Clock func() time.Time
}

var configBounds = bounds.For[Config](
	bounds.Number("MaxKeys", 1, bounds.Many).OrDefault(),
	bounds.Number("MaxHistory", 1, bounds.Many).OrDefault(),
)

// Store keeps records in memory. It is safe for concurrent use.
type Store struct {
	unusable error // what is wrong with the Config
	maxKeys  int64
	clock    monotonic.Clock
	seed     maphash.Seed
	keys     atomic.Int64
	born     atomic.Uint64                 // how many keys there have been
	tags     [shards]index[uint64, uint64] // the hashes of IDs by tag
	counts   [stet.Expired + 1]atomic.Int64
	shards   [shards]shard
	names    index[string, stet.ID] // downstream
	history  history
}

const shards = 256

// shard is a part of the records with its own lock.
type shard struct {
	mu      sync.Mutex
	records map[uint64]*entry // by hash of the ID; entries of one hash are chained
	open    queue             // records that have to be ended, by due time: mostly leases, which end soon
	ended   queue             // records that may be removed once they are due: retentions, which end much later
	waits   rest.Rooms[stet.ID]
	last    *label // of the newest record: most have the same
	labels  map[label]*label
	path    *string // of the newest record, likewise
	encoded []byte  // room for what is being encoded
}

var (
	_ stet.Store     = (*Store)(nil)
	_ stet.Lister    = (*Store)(nil)
	_ stet.Counter   = (*Store)(nil)
	_ stet.Waiter    = (*Store)(nil)
	_ stet.Finder    = (*Store)(nil)
	_ stet.Historian = (*Store)(nil)
	_ stet.Reaper    = (*Store)(nil)
)

// New returns an empty Store. If a number of c is out of bounds, the store takes no record, and the
// error of each attempt says which.
func New(c Config) *Store {
	s := &Store{unusable: configBounds.Check(&c), maxKeys: int64(cmp.Or(c.MaxKeys, 1_000_000)), clock: monotonic.Clock{Now: c.Clock}, seed: maphash.MakeSeed(),
		history: history{max: cmp.Or(c.MaxHistory, 100_000)}}
	for i := range s.shards {
		s.shards[i].records = make(map[uint64]*entry)
		s.shards[i].labels = make(map[label]*label)
	}
	return s
}

// now is the store's clock, in microseconds.
func (s *Store) now() int64 { return s.clock.Micros() }

func (s *Store) shard(id stet.ID) (*shard, uint64) {
	h := maphash.Comparable(s.seed, id)
	return &s.shards[h%shards], h
}

// queue returns the queue in which e waits. Each of the two grows nearly in order, so that adding
// is cheap.
func (sh *shard) queue(e *entry) *queue {
	if e.state == stet.Running || e.state == stet.Unknown || e.state == stet.Completed && e.label.rules.KeepExpired > 0 {
		return &sh.open
	}
	return &sh.ended
}

// find returns the entry of id, or nil. The shard is locked.
func (sh *shard) find(h uint64, id stet.ID) *entry {
	for e := sh.records[h]; e != nil; e = e.next {
		if e.key == id.Key && e.label.scope == id.Scope {
			return e
		}
	}
	return nil
}

// Create implements [stet.Store].
func (s *Store) Create(ctx context.Context, r stet.Record) (got stet.Record, err error) {
	if err := cmp.Or(ctx.Err(), s.unusable); err != nil {
		return got, err
	}
	sh, h := s.shard(r.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	got.Tag = r.Tag
	if e := sh.find(h, r.ID); e != nil {
		e.record(&got, now)
		got.Body = got.UpTo(stet.MaxBody(ctx))
		return got, stet.ErrExists
	}
	if s.keys.Add(1) > s.maxKeys && !s.makeRoom(sh, now) {
		s.keys.Add(-1)
		return stet.Record{}, stet.ErrFull
	}
	r.CreatedAt, r.CompletedAt = time.Time{}, time.Time{}
	e := &entry{key: stet.Key(strings.Clone(string(r.Key))), next: sh.records[h], born: s.born.Add(1)}
	sh.write(e, &r.Head, &r.Body, now)
	sh.records[h] = e
	sh.queue(e).add(e)
	s.counts[e.state].Add(1)
	s.rename(e.id(), [2]string{}, e.names())
	s.tag(e, h)
	e.record(&got, now)
	return got, nil
}

// makeRoom removes one record whose retention is over, from this shard or else from another whose
// lock is free.
func (s *Store) makeRoom(own *shard, now int64) bool {
	if s.dropEnded(own, now) {
		return true
	}
	for i := range s.shards {
		if sh := &s.shards[i]; sh != own && sh.mu.TryLock() {
			dropped := s.dropEnded(sh, now)
			sh.mu.Unlock()
			if dropped {
				return true
			}
		}
	}
	return false
}

// dropEnded removes the record that is overdue for the longest time, among those that no request
// would find alive. Running and unknown records stay, however long they are overdue.
func (s *Store) dropEnded(sh *shard, now int64) bool {
	if len(sh.ended) == 0 || sh.ended[0].due > now {
		return false
	}
	e := sh.ended[0].e
	s.remove(sh, s.hash(e), e)
	return true
}

func (s *Store) hash(e *entry) uint64 { return maphash.Comparable(s.seed, e.id()) }

func (s *Store) remove(sh *shard, h uint64, e *entry) {
	sh.queue(e).remove(e)
	sh.unlink(h, e)
	s.keys.Add(-1)
	s.counts[e.state].Add(-1)
	s.rename(e.id(), e.names(), [2]string{})
	s.untag(e, h)
	sh.waits.Ring(e.id())
}

// unlink removes e from its chain.
func (sh *shard) unlink(h uint64, e *entry) {
	first := sh.records[h]
	at := &first
	for *at != e {
		at = &(*at).next
	}
	if *at = e.next; first == nil {
		delete(sh.records, h)
	} else {
		sh.records[h] = first
	}
}

// Get implements [stet.Store].
func (s *Store) Get(ctx context.Context, id stet.ID) (got stet.Record, err error) {
	if err := ctx.Err(); err != nil {
		return got, err
	}
	sh, h := s.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.find(h, id)
	if e == nil {
		return got, stet.ErrNotFound
	}
	e.record(&got, s.now())
	got.Body = got.UpTo(stet.MaxBody(ctx))
	return got, nil
}

// Replace implements [stet.Store].
func (s *Store) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (got stet.Head, err error) {
	if err := ctx.Err(); err != nil {
		return got, err
	}
	sh, hash := s.shard(h.ID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	e := sh.find(hash, h.ID)
	switch {
	case e == nil:
		return got, stet.ErrNotFound
	case e.version != prev:
		got.Tag = h.Tag
		e.head(&got, now)
		return got, stet.ErrStale
	}
	from, named, retag := e.state, e.names(), !e.bears(h.Tag)
	s.counts[from].Add(-1)
	before := sh.queue(e)
	if retag {
		s.untag(e, hash)
	}
	sh.write(e, &h, b, now)
	s.counts[e.state].Add(1)
	if after := sh.queue(e); after == before {
		after.fix(e)
	} else {
		before.remove(e)
		after.add(e)
	}
	s.rename(e.id(), named, e.names())
	if retag {
		s.tag(e, hash)
	}
	if h.Note != nil {
		s.history.add(stet.Change{ID: e.id(), Tag: h.Tag, From: from, To: e.state, Attempt: int(e.attempt), At: instant(now), Note: *h.Note})
	}
	sh.waits.Ring(h.ID)
	got.Tag = h.Tag
	e.head(&got, now)
	return got, nil
}

// Delete implements [stet.Store].
func (s *Store) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sh, h := s.shard(id)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.find(h, id)
	switch {
	case e == nil:
		return stet.ErrNotFound
	case e.version != prev:
		return stet.ErrStale
	}
	s.clock.Pass(e.created + int64(e.attempt))
	s.remove(sh, h, e)
	return nil
}

// Reap implements [stet.Reaper]. Between two records it lets requests at the shard.
func (s *Store) Reap(ctx context.Context, limit int) (n int, err error) {
	now := s.now()
	for i := range s.shards {
		sh := &s.shards[i]
		for gone := true; gone && n < limit; {
			if err := ctx.Err(); err != nil {
				return n, err
			}
			sh.mu.Lock()
			if gone = s.dropEnded(sh, now); gone {
				n++
			}
			sh.mu.Unlock()
		}
	}
	return n, nil
}

// Wait implements [stet.Waiter].
func (s *Store) Wait(ctx context.Context, id stet.ID, seen stet.Version) error {
	sh, h := s.shard(id)
	changed, leave := sh.waits.Enter(id)
	defer leave()
	sh.mu.Lock()
	e := sh.find(h, id)
	over := e == nil || e.version != seen
	sh.mu.Unlock()
	if over {
		return nil
	}
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
