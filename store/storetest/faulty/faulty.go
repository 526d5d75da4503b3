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
	"github.com/stet-dev/stet/internal/ability"
)

// ErrFault is what a call fails with that was made to fail.
var ErrFault = errors.New("faulty: the store was made to fail")

// Store passes calls on, or fails them. It is safe for concurrent use; a change is in force when the method that makes it
// has returned.
type Store struct {
	*calls
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

type calls = ability.Store // those of the inner store, failing as told

var _ stet.Store = (*Store)(nil)

// New wraps s. The seed decides what gets lost by chance.
func New(s stet.Store, seed uint64) *Store {
	f := &Store{random: rand.New(rand.NewPCG(seed, seed)), corrupt: map[stet.ID]bool{}}
	f.calls = ability.Wrap(s, f.fail, true)
	return f
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

func (s *Store) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// plan is what is to happen to one call.
type plan struct {
	err  error // instead of the call
	skip bool  // nothing happens, and that is no error
	lost bool  // the call happens, its reply does not
	slow time.Duration
}

func (s *Store) plan(c *ability.Call) (p plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Op == ability.Reap && len(s.corrupt) > 0 { // the inner store would remove corrupt records with the others
		return plan{skip: true}
	}
	p.slow = s.slow
	writes := c.Op == ability.Create || c.Op == ability.Replace || c.Op == ability.Delete
	if writes && s.every > 0 {
		s.writes++
		p.lost = s.writes%s.every == 0
	}
	p.lost = p.lost || s.replies > 0 && s.random.Float64() < s.replies
	switch {
	case s.down, s.failComplete && c.State == stet.Completed, s.requests > 0 && s.random.Float64() < s.requests:
		p.err = ErrFault
	case s.corrupt[c.ID]:
		p.err = fmt.Errorf("%w: damaged on purpose", stet.ErrCorrupt)
	}
	return p
}

// fail makes one call as planned.
func (s *Store) fail(ctx context.Context, c *ability.Call) error {
	p := s.plan(c)
	if p.slow > 0 {
		t := time.NewTimer(p.slow)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if p.err != nil || p.skip {
		return p.err
	}
	if err := c.Do(ctx); !p.lost {
		return err
	}
	return ErrFault
}
