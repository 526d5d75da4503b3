// Package faulty wraps a store and makes it fail on demand: it can be down, slow, lose requests and
// replies, or have corrupt records. It serves tests, and builds of a program that are made to be
// tested.
//
// A fault applies to the verbs, to all abilities that read or write records, and to the stores that
// are bound to transactions. It does not apply to the commit of a transaction, which does not pass
// through a store.
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

// ErrFault is returned by a call that was made to fail. Whether the call had an effect depends on
// the fault.
var ErrFault = errors.New("faulty: the store was made to fail")

// Store implements [stet.Store], and has the abilities of the store that it wraps. It is safe for
// concurrent use. A fault is in force once the method that sets it has returned.
type Store struct {
	*calls
	mu           sync.Mutex
	down         bool
	slow         time.Duration
	failComplete bool
	every        int // one of so many writes loses its reply; 0: none does
	writes       int
	requests     float64 // probability that a call is lost on its way there
	replies      float64 // ... and back
	random       *rand.Rand
	corrupt      map[stet.ID]bool
}

type calls = ability.Store // of the inner store, each through fail

var _ stet.Store = (*Store)(nil)

// New wraps s, without any fault. The seed makes the choices of [Store.Lose] repeatable.
func New(s stet.Store, seed uint64) *Store {
	f := &Store{random: rand.New(rand.NewPCG(seed, seed)), corrupt: map[stet.ID]bool{}}
	f.calls = ability.Wrap(s, f.fail, true)
	return f
}

// Down makes every call fail immediately, without effect.
func (s *Store) Down() { s.set(func() { s.down = true }) }

// Up ends all faults except corruption.
func (s *Store) Up() {
	s.set(func() { s.down, s.slow, s.failComplete, s.every, s.requests, s.replies = false, 0, false, 0, 0, 0 })
}

// Slow delays every call by d, or until its context ends.
func (s *Store) Slow(d time.Duration) { s.set(func() { s.slow = d }) }

// FailComplete makes every write of a result fail without effect, if on is true.
func (s *Store) FailComplete(on bool) { s.set(func() { s.failComplete = on }) }

// LoseReplies makes every n-th write take effect and return [ErrFault]. 0 ends the fault.
func (s *Store) LoseReplies(n int) { s.set(func() { s.every, s.writes = n, 0 }) }

// Lose makes calls return [ErrFault] at random: with probability requests before they take effect,
// and with probability replies afterwards.
func (s *Store) Lose(requests, replies float64) {
	s.set(func() { s.requests, s.replies = requests, replies })
}

// Corrupt makes every call for the record of id return [stet.ErrCorrupt]. No method ends that.
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
