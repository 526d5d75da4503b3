package breakerstore

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
	"github.com/stet-dev/stet/internal/bounds"
)

// Config configures a [Store]. The zero value works.
type Config struct {
	// Failures is the number of failures within ten seconds that opens the breaker, if at least
	// half of the calls in that time failed. Default 10.
	Failures int
	// Pause is how long the breaker stays open before it lets a probe through. Default one second.
	Pause time.Duration
	// Probes is how many calls a half-open breaker lets through at a time, and how many of them
	// must succeed in a row to close it. Default 1.
	Probes int
	// Patience is the least time that a deadline must have left the store for its expiry to count
	// as a failure. Default 100 ms.
	Patience time.Duration
	// Changed, if it is not nil, is called after each change of state, in order. The breaker is
	// locked meanwhile: Changed must return quickly and must not call the store.
	Changed func(from, to State)
}

var configBounds = bounds.For[Config](
	bounds.Number("Failures", 1, bounds.Many).OrDefault(),
	bounds.Duration("Pause", bounds.Short, bounds.Long).OrDefault(),
	bounds.Number("Probes", 1, bounds.Many).OrDefault(),
	bounds.Duration("Patience", bounds.Short, bounds.Long).OrDefault(),
)

// window is the time in which failures are counted together.
const window = 10 * time.Second

const windowStep = time.Second // the window moves in steps of this length

// State is the state of a breaker.
type State gobreaker.State

const (
	Closed   = State(gobreaker.StateClosed)   // calls go through
	HalfOpen = State(gobreaker.StateHalfOpen) // single calls go through, as probes
	Open     = State(gobreaker.StateOpen)     // no call goes through
)

func (s State) String() string { return gobreaker.State(s).String() }

// ErrOpen is returned without asking the store, because most of the calls before failed. The call
// had no effect.
var ErrOpen = errors.New("breakerstore: the store failed too often and is not asked for a moment")

// Store implements [stet.Store], and has the abilities of the store that it wraps. It is safe for
// concurrent use.
type Store struct {
	*calls
	breaker  *gobreaker.CircuitBreaker[struct{}]
	patience time.Duration
}

type calls = ability.Store // of the inner store, each through pass

var (
	_ stet.Store = (*Store)(nil)
	_ io.Closer  = (*Store)(nil)
)

// New wraps inner. The error names the field of c that cannot be used.
func New(inner stet.Store, c Config) (*Store, error) {
	if inner == nil {
		return nil, errors.New("breakerstore: New needs a store")
	}
	if err := configBounds.Check(&c); err != nil {
		return nil, err
	}
	failures := uint32(cmp.Or(c.Failures, 10))
	settings := gobreaker.Settings{
		MaxRequests:  uint32(cmp.Or(c.Probes, 1)),
		Interval:     window,
		BucketPeriod: windowStep,
		Timeout:      cmp.Or(c.Pause, time.Second),
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
		settings.OnStateChange = func(_ string, from, to gobreaker.State) { c.Changed(State(from), State(to)) }
	}
	s := &Store{breaker: gobreaker.NewCircuitBreaker[struct{}](settings), patience: cmp.Or(c.Patience, 100*time.Millisecond)}
	s.calls = ability.Wrap(inner, s.pass, false)
	return s, nil
}

// Close closes the inner store, if it has something to close.
func (s *Store) Close() error { return ability.Close(s.Unwrap()) }

// State returns the current state. An open breaker whose pause is over is half-open.
func (s *Store) State() State { return State(s.breaker.State()) }

// answered reports whether the store answered the call, even if the answer is an error.
func answered(err error) bool {
	return err == nil || slices.ContainsFunc([]error{stet.ErrExists, stet.ErrStale, stet.ErrNotFound, stet.ErrCorrupt, stet.ErrFull,
		stet.ErrRefused, stet.ErrUnconfirmed, stet.ErrBusy, stet.ErrForeign}, func(answer error) bool { return errors.Is(err, answer) })
}

// unjudged marks a failure that says nothing about the store.
type unjudged struct{ error }

func (u unjudged) Unwrap() error { return u.error }

// pass makes the call if the breaker lets it through. Only verbs are counted and serve as probes,
// because they are short.
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

// gaveUp reports whether the call ended because of its caller. A deadline that left the store
// enough time is no such reason.
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
