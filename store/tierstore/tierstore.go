package tierstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
)

// Config of a Store. The zero value works.
type Config struct {
	// TTL is how long a copy is replayed before the back is asked again, and so how long a purge may go unnoticed. Default
	// [DefaultTTL].
	TTL time.Duration
	// Timeout is how much of each call a front that is reached over a network may take, reading and writing together. Default
	// [DefaultTimeout]. A [Cache] needs none.
	Timeout time.Duration
	// InFlight keeps a note of running records in the front, so that duplicates of a request that runs are turned away without
	// asking the back. The note may only ever keep a request from running, and for TTL at most: where the run has ended and the
	// note could not be removed, retries hear that the key is in use for so long. It costs one more write to the front per
	// execution.
	InFlight bool
	// Clock measures how long copies have been in a [Cache]. Default time.Now.
	Clock func() time.Time
}

// Defaults of [Config].
const (
	DefaultTTL     = time.Minute
	DefaultTimeout = 50 * time.Millisecond
)

// FrontPause is how long a front that failed is left alone.
const FrontPause = time.Second

// Store reads completed records through a front. It is safe for concurrent use; several processes may have one each on the
// same back, with one front or each its own.
type Store struct {
	front Front
	back  stet.Store
	cfg   Config
	chain stet.Store
	rests atomic.Int64 // until when the front is left alone, in nanoseconds of the process's clock
}

var (
	_ stet.Store  = (*Store)(nil)
	_ stet.Closer = (*Store)(nil)
)

// New returns a Store on both. The error names what cannot be used.
func New(front Front, back stet.Store, c Config) (*Store, error) {
	switch {
	case front == nil || back == nil:
		return nil, errors.New("tierstore: New needs a front and a back")
	case c.TTL < 0:
		return nil, fmt.Errorf("tierstore: TTL is %s", c.TTL)
	case c.Timeout < 0:
		return nil, fmt.Errorf("tierstore: Timeout is %s", c.Timeout)
	}
	c.TTL, c.Timeout = cmp.Or(c.TTL, DefaultTTL), cmp.Or(c.Timeout, DefaultTimeout)
	if c.Clock == nil {
		c.Clock = time.Now
	}
	s := &Store{front: front, back: back, cfg: c, chain: back}
	if c.InFlight {
		has := ability.Of(back)
		s.chain = ability.Set{Binder: has.Binder}.Chain(s, binder{has, s}, back)
	}
	return s, nil
}

// Unwrap lets [stet.As] find the abilities of the back. None but transactions write what the front would have to know, and those only
// where it has notes of what runs: what a claim changes in a transaction was not completed before.
func (s *Store) Unwrap() stet.Store { return s.chain }

// Close closes both stores, if they have something to close.
func (s *Store) Close() error { return errors.Join(s.front.close(), ability.Close(s.back)) }

// Create implements [stet.Store]. Where the front has a completed record whose retention is not over, that is the incumbent.
func (s *Store) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	v := s.visit()
	if have, ok := v.take(ctx, r.ID); ok && s.shown(have.State) {
		return have, stet.ErrExists
	}
	began := s.cfg.Clock()
	got, err := s.back.Create(ctx, r)
	switch {
	case err == nil:
		v.put(ctx, got.Head, clone(got.Body), began)
	case errors.Is(err, stet.ErrExists):
		v.put(ctx, got.Head, got.Body, began)
	}
	return got, err
}

// Get implements [stet.Store].
func (s *Store) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	v := s.visit()
	if have, ok := v.take(ctx, id); ok && have.State == stet.Completed {
		return have, nil
	}
	began := s.cfg.Clock()
	got, err := s.back.Get(ctx, id)
	if err == nil {
		v.put(ctx, got.Head, got.Body, began)
	}
	return got, err
}

// Replace implements [stet.Store]. The back decides, and whatever it said, the copy of what was there before has to go. Without
// its Body a record is not put in that place: who finds it there must find all of it.
func (s *Store) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (stet.Head, error) {
	v, began := s.visit(), s.cfg.Clock()
	got, err := s.back.Replace(ctx, prev, h, b)
	if err != nil || b == nil || !v.put(ctx, got, clone(*b), began) {
		v.drop(ctx, h.ID)
	}
	return got, err
}

// Delete implements [stet.Store].
func (s *Store) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	v := s.visit()
	err := s.back.Delete(ctx, id, prev)
	v.drop(ctx, id)
	return err
}

// Due implements [stet.Store].
func (s *Store) Due(ctx context.Context, q stet.Query) ([]stet.Head, string, error) {
	return s.back.Due(ctx, q)
}

// shown: records of this state may be read from the front.
func (s *Store) shown(st stet.State) bool {
	return st == stet.Completed || st == stet.Running && s.cfg.InFlight
}

// visit is what one call does with the front, within what is left of its time for that.
type visit struct {
	s    *Store
	left time.Duration
}

func (s *Store) visit() visit { return visit{s, s.cfg.Timeout} }

// take returns the front's copy, with the instants it has by now, if its retention is not over and it is not too old.
func (v *visit) take(ctx context.Context, id stet.ID) (r stet.Record, ok bool) {
	var age time.Duration
	var there bool
	if !v.ask(ctx, func(ctx context.Context) (err error) {
		r, age, there, err = v.s.front.take(ctx, id, v.s.cfg.Clock())
		return err
	}) || !there || r.ID != id || r.Version == 0 || age < 0 || age > v.s.cfg.TTL {
		return stet.Record{}, false
	}
	r.AsOf = r.AsOf.Add(micros(age))
	return r, !r.Over()
}

// put writes a copy of what the back has answered to a question asked at began. It reports false where the front is to have
// none.
func (v *visit) put(ctx context.Context, h stet.Head, b stet.Body, began time.Time) bool {
	if !v.s.shown(h.State) {
		return false
	}
	now := v.s.cfg.Clock()
	late := max(0, now.Sub(began))
	if !v.s.front.local() {
		late += v.s.cfg.Timeout // as long as the copy may be on its way
	}
	h.AsOf = h.AsOf.Add(micros(late))
	ttl := v.s.cfg.TTL
	if !h.DueAt.IsZero() {
		ttl = min(ttl, h.DueAt.Sub(h.AsOf))
	}
	if ttl <= 0 {
		return false
	}
	return v.ask(ctx, func(ctx context.Context) error { return v.s.front.put(ctx, stet.Record{Head: h, Body: b}, ttl, now) })
}

func (v *visit) drop(ctx context.Context, id stet.ID) {
	v.ask(ctx, func(ctx context.Context) error { return v.s.front.drop(ctx, id) })
}

// micros is d in whole microseconds, as instants of stores are, and not less than d.
func micros(d time.Duration) time.Duration {
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}

// ask does something with the front, if there is time for it. It reports whether that succeeded.
func (v *visit) ask(ctx context.Context, do func(context.Context) error) bool {
	if v.s.front.local() {
		return do(ctx) == nil
	}
	began := time.Now()
	if v.left <= 0 || began.UnixNano() < v.s.rests.Load() {
		return false
	}
	within, cancel := context.WithTimeout(ctx, v.left)
	defer cancel()
	err := do(within)
	v.left -= time.Since(began)
	if err != nil && ctx.Err() == nil { // not because the caller has gone
		v.left = 0
		v.s.rests.Store(time.Now().Add(FrontPause).UnixNano())
	}
	return err == nil
}
