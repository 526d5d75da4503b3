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
	inner    stet.Store
	breaker  *gobreaker.CircuitBreaker[struct{}]
	patience time.Duration
	chain    stet.Store
}

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
		IsExcluded:   func(err error) bool { return errors.As(err, new(unjudged)) },
	}
	if c.Changed != nil {
		settings.OnStateChange = func(_ string, from, to gobreaker.State) { c.Changed(state(from), state(to)) }
	}
	s := &Store{inner: inner, breaker: gobreaker.NewCircuitBreaker[struct{}](settings), patience: cmp.Or(c.Patience, DefaultPatience)}
	s.chain = s.abilities().Chain(s, inner)
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

// State returns what the breaker does now. An open breaker whose pause is over is half-open.
func (s *Store) State() State { return state(s.breaker.State()) }

// Unwrap lets [stet.As] find the abilities of the inner store.
func (s *Store) Unwrap() stet.Store { return s.chain }

// Close closes the inner store, if it has something to close.
func (s *Store) Close() error { return ability.Close(s.inner) }

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

// call runs do if the breaker lets it through.
func (s *Store) call(ctx context.Context, do func() error) error {
	_, err := s.breaker.Execute(func() (struct{}, error) {
		began := time.Now()
		err := do()
		if err != nil && !answered(err) && s.gaveUp(ctx, began) {
			err = unjudged{err}
		}
		return struct{}{}, err
	})
	if own, ok := err.(unjudged); ok { // never a wrapped one: call made it
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

// Create implements [stet.Store].
func (s *Store) Create(ctx context.Context, r stet.Record) (got stet.Record, err error) {
	err = s.call(ctx, func() (err error) { got, err = s.inner.Create(ctx, r); return err })
	return got, err
}

// Get implements [stet.Store].
func (s *Store) Get(ctx context.Context, id stet.ID) (got stet.Record, err error) {
	err = s.call(ctx, func() (err error) { got, err = s.inner.Get(ctx, id); return err })
	return got, err
}

// Replace implements [stet.Store].
func (s *Store) Replace(ctx context.Context, prev stet.Version, h stet.Head, b *stet.Body) (got stet.Head, err error) {
	err = s.call(ctx, func() (err error) { got, err = s.inner.Replace(ctx, prev, h, b); return err })
	return got, err
}

// Delete implements [stet.Store].
func (s *Store) Delete(ctx context.Context, id stet.ID, prev stet.Version) error {
	return s.call(ctx, func() error { return s.inner.Delete(ctx, id, prev) })
}

// Due implements [stet.Store].
func (s *Store) Due(ctx context.Context, q stet.Query) (heads []stet.Head, next string, err error) {
	err = s.call(ctx, func() (err error) { heads, next, err = s.inner.Due(ctx, q); return err })
	return heads, next, err
}
