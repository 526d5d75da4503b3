// Package faulty wraps a store and makes it fail as told: for tests, and for builds of a program that are made to be tested.
package faulty

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stet-dev/stet"
)

// ErrFault is what a call fails with that was made to fail.
var ErrFault = errors.New("faulty: the store was made to fail")

// Store passes calls on, or fails them. It is safe for concurrent use; a change is in force when the method that makes it
// has returned.
type Store struct {
	inner stet.Store
	*faults
}

// faults are what is to fail. A store and those it binds to transactions have them in common.
type faults struct {
	mu           sync.Mutex
	down         bool
	slow         time.Duration
	failComplete bool
	every        int // each so manieth write loses its reply
	writes       int
	requests     float64 // probability that a call is lost on its way there
	replies      float64 // ... and back
	random       *rand.Rand
	corrupt      map[stet.ID]bool
}

var _ stet.Store = (*Store)(nil)

// New wraps s. The seed decides what gets lost by chance.
func New(s stet.Store, seed uint64) *Store {
	return &Store{inner: s, faults: &faults{random: rand.New(rand.NewPCG(seed, seed)), corrupt: map[stet.ID]bool{}}}
}

// Down makes every call fail at once.
func (s *Store) Down() { s.set(func() { s.down = true }) }

// Up ends all faults but corruption.
func (s *Store) Up() {
	s.set(func() { s.down, s.slow, s.failComplete, s.every, s.requests, s.replies = false, 0, false, 0, 0, 0 })
}

// Slow makes every call take so much longer, within its deadline.
func (s *Store) Slow(d time.Duration) { s.set(func() { s.slow = d }) }

// FailComplete makes writes of a result fail without happening.
func (s *Store) FailComplete(on bool) { s.set(func() { s.failComplete = on }) }

// LoseReplies makes each n-th write happen and its caller get an error; 0 ends it.
func (s *Store) LoseReplies(n int) { s.set(func() { s.every, s.writes = n, 0 }) }

// Lose makes calls fail by chance: before they happen, and after.
func (s *Store) Lose(requests, replies float64) {
	s.set(func() { s.requests, s.replies = requests, replies })
}

// Corrupt makes the record of id unreadable.
func (s *Store) Corrupt(id stet.ID) { s.set(func() { s.corrupt[id] = true }) }

func (f *faults) damaged() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.corrupt) > 0
}

func (f *faults) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// plan is what is to happen to one call.
type plan struct {
	err  error // instead of the call
	lost bool  // the call happens, its reply does not
	slow time.Duration
}

func (f *faults) plan(id stet.ID, writes stet.State) (p plan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.slow = f.slow
	if writes != 0 && f.every > 0 {
		f.writes++
		p.lost = f.writes%f.every == 0
	}
	p.lost = p.lost || f.replies > 0 && f.random.Float64() < f.replies
	switch {
	case f.down, f.failComplete && writes == stet.Completed, f.requests > 0 && f.random.Float64() < f.requests:
		p.err = ErrFault
	case f.corrupt[id]:
		p.err = fmt.Errorf("%w: damaged on purpose", stet.ErrCorrupt)
	}
	return p
}

// call runs one call as planned.
func (f *faults) call(ctx context.Context, id stet.ID, writes stet.State, do func() error) error {
	p := f.plan(id, writes)
	if p.slow > 0 {
		t := time.NewTimer(p.slow)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if p.err != nil {
		return p.err
	}
	if err := do(); !p.lost {
		return err
	}
	return ErrFault
}

// Create implements [stet.Store].
func (s *Store) Create(ctx context.Context, r stet.Record) (got stet.Record, err error) {
	err = s.call(ctx, r.ID, r.State, func() (err error) { got, err = s.inner.Create(ctx, r); return err })
	return shown(got, err)
}

// Get implements [stet.Store].
func (s *Store) Get(ctx context.Context, id stet.ID) (got stet.Record, err error) {
	err = s.call(ctx, id, 0, func() (err error) { got, err = s.inner.Get(ctx, id); return err })
	return shown(got, err)
}

func shown(r stet.Record, err error) (stet.Record, error) {
	if errors.Is(err, ErrFault) {
		return stet.Record{}, err
	}
	return r, err
}

// Replace implements [stet.Store].
func (s *Store) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (got stet.Head, err error) {
	err = s.call(ctx, h.ID, h.State, func() (err error) { got, err = s.inner.Replace(ctx, prev, h, b); return err })
	if errors.Is(err, ErrFault) {
		return stet.Head{}, err
	}
	return got, err
}

// Delete implements [stet.Store].
func (s *Store) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	return s.call(ctx, id, stet.Expired, func() error { return s.inner.Delete(ctx, id, prev) })
}

// Due implements [stet.Store].
func (s *Store) Due(ctx context.Context, q stet.Query) (heads []stet.Head, next string, err error) {
	err = s.call(ctx, stet.ID{}, 0, func() (err error) { heads, next, err = s.inner.Due(ctx, q); return err })
	if err != nil {
		return nil, "", err
	}
	return heads, next, nil
}
