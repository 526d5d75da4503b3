package breakerstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
)

// Config of a Store. The zero value works.
type Config struct {
	// Failures within [Window] open the breaker, if they are at least half of the calls. Default [DefaultFailures].
	Failures int
	// Pause is how long the breaker stays open before a probe is let through. Default [DefaultPause].
	Pause time.Duration
	// Probes are let through at a time while the breaker is half-open; so many answers in a row close it. Default 1.
	Probes int
	// Patience is what a deadline must have left the store for its passing to count as a failure. Default [DefaultPatience].
	Patience time.Duration
	// Changed is told of every change of state, in order. It is called while the breaker is locked: it must be fast, and must
	// not call the store. May be nil.
	Changed func(from, to State)
}

// Defaults of [Config].
const (
	DefaultFailures = 10
	DefaultPause    = time.Second
	DefaultPatience = 100 * time.Millisecond
)

// Window is the time within which failures are counted together.
const Window = 10 * time.Second

const windowStep = time.Second // old calls leave the window in steps of this

// State is what a breaker does with calls.
type State uint8

const (
	Closed   State = iota // calls go through
	HalfOpen              // some go through, as probes
	Open                  // none does
)

func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case HalfOpen:
		return "half-open"
	case Open:
		return "open"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// ErrOpen: the store was not asked, because it failed too often a moment ago. Nothing was sent.
var ErrOpen = errors.New("breakerstore: the store failed too often and is left alone for a moment")

// Store passes calls on while the store it wraps answers. It is safe for concurrent use.
type Store struct {
	*calls
	breaker  *gobreaker.CircuitBreaker[struct{}]
	patience time.Duration
}

type calls = ability.Store // those of the inner store, each passed by the breaker

var (
	_ stet.Store  = (*Store)(nil)
	_ stet.Closer = (*Store)(nil)
)

// New wraps inner. The error names the setting that cannot be used.
func New(inner stet.Store, c Config) (*Store, error) {
	switch {
	case inner == nil:
		return nil, errors.New("breakerstore: New needs a store")
	case c.Failures < 0:
		return nil, fmt.Errorf("breakerstore: Failures is %d", c.Failures)
	case c.Pause < 0:
		return nil, fmt.Errorf("breakerstore: Pause is %s", c.Pause)
	case c.Probes < 0:
		return nil, fmt.Errorf("breakerstore: Probes is %d", c.Probes)
	case c.Patience < 0:
		return nil, fmt.Errorf("breakerstore: Patience is %s", c.Patience)
	}
	failures := uint32(min(cmp.Or(c.Failures, DefaultFailures), 1<<30))
	settings := gobreaker.Settings{
		MaxRequests:  uint32(min(cmp.Or(c.Probes, 1), 1<<30)),
		Interval:     Window,
		BucketPeriod: windowStep,
		Timeout:      cmp.Or(c.Pause, DefaultPause),
		ReadyToTrip: func(n gobreaker.Counts) bool {
			return n.TotalFailures >= failures && n.TotalFailures >= (n.TotalFailures+n.TotalSuccesses+1)/2
		},
		IsSuccessful: answered,
		IsExcluded: func(err error) bool {
			_, own := err.(unjudged) // never wrapped: pass made it
			return own
		},
	}
	if c.Changed != nil {
		settings.OnStateChange = func(_ string, from, to gobreaker.State) { c.Changed(state(from), state(to)) }
	}
	s := &Store{breaker: gobreaker.NewCircuitBreaker[struct{}](settings), patience: cmp.Or(c.Patience, DefaultPatience)}
	s.calls = ability.Wrap(inner, s.pass, false)
	return s, nil
}

func state(s gobreaker.State) State {
	switch s {
	case gobreaker.StateClosed:
		return Closed
	case gobreaker.StateHalfOpen:
		return HalfOpen
	case gobreaker.StateOpen:
		return Open
	}
	panic("breakerstore: unknown state " + s.String())
}

// Close closes the inner store, if it has something to close.
func (s *Store) Close() error { return ability.Close(s.Unwrap()) }

// State returns what the breaker does now. An open breaker whose pause is over is half-open.
func (s *Store) State() State { return state(s.breaker.State()) }

// answered: the store spoke, whatever it said.
func answered(err error) bool {
	if err == nil {
		return true
	}
	for _, answer := range [...]error{stet.ErrExists, stet.ErrStale, stet.ErrNotFound, stet.ErrCorrupt, stet.ErrFull, stet.ErrUnconfirmed} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}

// unjudged is a failure that says nothing about the store.
type unjudged struct{ error }

func (u unjudged) Unwrap() error { return u.error }

// pass makes the call if the breaker lets it through. Only verbs are counted. While the breaker is half-open, its probe is to be
// a short call, and so never an ability.
func (s *Store) pass(ctx context.Context, c *ability.Call) error {
	if !c.Op.Verb() {
		if s.State() != Closed {
			return ErrOpen
		}
		return c.Do(ctx)
	}
	_, err := s.breaker.Execute(func() (struct{}, error) {
		began := time.Now()
		err := c.Do(ctx)
		if err != nil && !answered(err) && s.gaveUp(ctx, began) {
			err = unjudged{err}
		}
		return struct{}{}, err
	})
	if own, ok := err.(unjudged); ok {
		return own.error
	}
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return ErrOpen
	}
	return err
}

// gaveUp: the call ended because of its caller. A deadline that left the store enough time is no such end.
func (s *Store) gaveUp(ctx context.Context, began time.Time) bool {
	end, limited := ctx.Deadline()
	switch now := time.Now(); {
	case limited && !now.Before(end): // a network may notice before ctx does
		return now.Sub(began) < s.patience
	case ctx.Err() == nil:
		return false
	}
	return true
}
