package tierstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
	"github.com/stet-dev/stet/internal/bounds"
)

// Config configures a [Store]. The zero value works.
type Config struct {
	// TTL is how long a copy is replayed before the origin is asked again, counted from when it was
	// asked last, and so the longest time for which a purge may go unnoticed. Default [DefaultTTL].
	TTL time.Duration
	// Timeout is how much of each call a shared cache may take, reading and writing together. A
	// [Memory] does not need it. Default 50 ms.
	Timeout time.Duration
	// InFlight also keeps a note of each running record in the cache, so that duplicates of a
	// running request are turned away without asking the origin. Such a note can only keep a
	// request from running, and for at most TTL: if the run has ended and its note could not be
	// removed, retries are told for that long that the key is in use. It costs one more write to
	// the cache per execution. Default false.
	InFlight bool
	// Clock measures how old the copies in a [Memory] are. Default [time.Now].
	Clock func() time.Time
	// Deaf is called by [Store.Follow] with the reason if it cannot hear what other processes
	// change, once until it hears again. A connection that ends and is there again at the next
	// attempt is no such reason. It may be nil.
	Deaf func(err error)
}

var configBounds = bounds.For[Config](
	bounds.Duration("TTL", bounds.Short, bounds.Long).OrDefault(),
	bounds.Duration("Timeout", bounds.Short, bounds.Long).OrDefault(),
)

// memoryBounds is for the size of a [Memory], which is refused when it is used.
var memoryBounds = bounds.Number("maxBytes", 1, bounds.Huge)

// Defaults of [Config].
const (
	DefaultTTL     = time.Minute
	defaultTimeout = 50 * time.Millisecond
)

// cachePause is how long a shared cache is not asked after it failed.
const cachePause = time.Second

// Store reads completed records through a cache. It is safe for concurrent use. Several processes
// may each have a Store on the same origin, with one shared cache or each with its own.
type Store struct {
	cache  Cache
	origin stet.Store
	cfg    Config
	chain  stet.Store
	paused atomic.Int64 // the cache is not asked until then, in nanoseconds of the process's clock
}

var (
	_ stet.Store = (*Store)(nil)
	_ io.Closer  = (*Store)(nil)
)

// New returns a Store that reads through cache and leaves every decision to origin. The error names
// the argument that cannot be used.
func New(cache Cache, origin stet.Store, c Config) (*Store, error) {
	if cache == nil || origin == nil {
		return nil, errors.New("tierstore: New needs a cache and an origin")
	}
	if err := configBounds.Check(&c); err != nil {
		return nil, err
	}
	if m, ok := cache.(*Memory); ok {
		if err := memoryBounds.Check(m.max); err != nil {
			return nil, fmt.Errorf("tierstore: %w", err)
		}
	}
	c.TTL, c.Timeout = cmp.Or(c.TTL, DefaultTTL), cmp.Or(c.Timeout, defaultTimeout)
	if c.Clock == nil {
		c.Clock = time.Now
	}
	s := &Store{cache: cache, origin: origin, cfg: c, chain: origin}
	if m, ok := cache.(*Memory); ok {
		if a, ok := stet.As[ability.Announcer](origin); ok {
			m.hash = a.Hash
		}
	}
	if c.InFlight {
		has := ability.Of(origin)
		s.chain = ability.Set{Binder: has.Binder}.Chain(s, binder{has, s}, origin)
	}
	return s, nil
}

// Paused reports whether the cache has just failed, and is not asked for a moment.
func (s *Store) Paused() bool { return time.Now().UnixNano() < s.paused.Load() }

// Unwrap lets [stet.As] find the abilities of the origin. Only writes in transactions concern the
// cache, and only with InFlight: without it, what a claim changes in a transaction was not
// completed before, and so has no copy.
func (s *Store) Unwrap() stet.Store { return s.chain }

// Close closes the cache and the origin, if they have something to close.
func (s *Store) Close() error { return errors.Join(s.cache.close(), ability.Close(s.origin)) }

// Create implements [stet.Store]. If the cache has a completed record whose retention is not over,
// that is the incumbent.
func (s *Store) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	v := s.visit()
	if have, ok := v.take(ctx, r.ID); ok && s.shown(have.State) {
		have.Body = have.UpTo(stet.MaxBody(ctx))
		return have, stet.ErrExists
	}
	seen := s.see(r.ID)
	got, err := s.origin.Create(ctx, r)
	switch {
	case errors.Is(err, stet.ErrExists):
		if s.shown(got.State) && got.Left == 0 {
			v.put(ctx, got, seen)
		}
	case err == nil && s.shown(got.State) && seen.wrote() && v.put(ctx, got, seen):
	case s.cache.local():
		// There may be a new record: what slower readers have of the one before is no copy of it. A
		// shared cache is spared that question: other processes' readers could be as slow.
		v.drop(ctx, r.ID)
	}
	return got, err
}

// Get implements [stet.Store].
func (s *Store) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	v := s.visit()
	if have, ok := v.take(ctx, id); ok && have.State == stet.Completed {
		have.Body = have.UpTo(stet.MaxBody(ctx))
		return have, nil
	}
	seen := s.see(id)
	got, err := s.origin.Get(ctx, id)
	if err == nil && s.shown(got.State) && got.Left == 0 {
		v.put(ctx, got, seen)
	}
	return got, err
}

// Replace implements [stet.Store]. The origin decides. Whatever it answers, the copy of the
// previous record must go. The new one takes its place only if its Body is known: a copy must be
// complete.
func (s *Store) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	v, seen := s.visit(), s.see(h.ID)
	got, err := s.origin.Replace(ctx, prev, h, b)
	if err != nil || b == nil || !s.shown(got.State) || !seen.wrote() || !v.put(ctx, stet.Record{Head: got, Body: *b}, seen) {
		v.drop(ctx, h.ID)
	}
	return got, err
}

// Delete implements [stet.Store].
func (s *Store) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	v := s.visit()
	err := s.origin.Delete(ctx, id, prev)
	v.drop(ctx, id)
	return err
}

// Due implements [stet.Store].
func (s *Store) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	return s.origin.Due(ctx, q)
}

// shown reports whether records of this state may be read from the cache.
func (s *Store) shown(st stet.State) bool {
	return st == stet.Completed || st == stet.Running && s.cfg.InFlight
}

// visit is what one call does with the cache, in the time that it has left for that.
type visit struct {
	s    *Store
	left time.Duration
}

func (s *Store) visit() visit { return visit{s, s.cfg.Timeout} }

// see returns a mark of id. The caller asks the origin after that.
func (s *Store) see(id stet.ID) mark { return s.cache.see(id, s.cfg.Clock()) }

// take returns the copy in the cache if its retention is not over and it is not too old. Its AsOf
// is moved on to now.
func (v *visit) take(ctx context.Context, id stet.ID) (r stet.Record, ok bool) {
	var age time.Duration
	var there bool
	if !v.ask(ctx, func(ctx context.Context) (err error) {
		r, age, there, err = v.s.cache.take(ctx, id, v.s.cfg.Clock())
		return err
	}) || !there || r.ID != id || r.Version == 0 || age < 0 || age > v.s.cfg.TTL {
		return stet.Record{}, false
	}
	r.AsOf = r.AsOf.Add(micros(age))
	return r, !r.Over()
}

// put writes a copy of what the origin answered to a question asked when m was seen. It reports
// whether the cache has that copy now.
func (v *visit) put(ctx context.Context, r stet.Record, m mark) (stored bool) {
	age := max(0, v.s.cfg.Clock().Sub(m.at))
	if !v.s.cache.local() {
		age += v.s.cfg.Timeout // as long as the copy may be on its way
	}
	age = micros(age)
	ttl := v.s.cfg.TTL
	if !r.DueAt.IsZero() {
		ttl = min(ttl, r.DueAt.Sub(r.AsOf))
	}
	if !v.s.cache.local() {
		r.AsOf = r.AsOf.Add(age) // by its clock, the copy is as old as its own write
	}
	return ttl > age && v.store(ctx, r, ttl-age, m)
}

func (v *visit) store(ctx context.Context, r stet.Record, ttl time.Duration, m mark) (stored bool) {
	v.ask(ctx, func(ctx context.Context) (err error) {
		stored, err = v.s.cache.put(ctx, r, ttl, m)
		return err
	})
	return stored
}

func (v *visit) drop(ctx context.Context, id stet.ID) {
	v.ask(ctx, func(ctx context.Context) error { return v.s.cache.drop(ctx, id) })
}

// micros rounds d up to whole microseconds, the unit of the instants that stores keep.
func micros(d time.Duration) time.Duration {
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}

// ask calls the cache if there is time left for it, and reports whether that succeeded.
func (v *visit) ask(ctx context.Context, do func(context.Context) error) bool {
	if v.s.cache.local() {
		return do(ctx) == nil
	}
	began := time.Now()
	if v.left <= 0 || began.UnixNano() < v.s.paused.Load() {
		return false
	}
	within, cancel := context.WithTimeout(ctx, v.left)
	defer cancel()
	err := do(within)
	v.left -= time.Since(began)
	if err != nil && ctx.Err() == nil { // a caller that has gone is no failure of the cache
		v.left = 0
		v.s.paused.Store(time.Now().Add(cachePause).UnixNano())
	}
	return err == nil
}
