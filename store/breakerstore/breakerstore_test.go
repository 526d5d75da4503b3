package breakerstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/tier"
	"github.com/stet-dev/stet/store/breakerstore"
	"github.com/stet-dev/stet/store/filestore"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/storetest"
)

func TestLaws(t *testing.T) {
	tier.Campaign(t, "the laws run over this store in another form in the gate")
	storetest.Run(t, storetest.Backend{Open: func(t testing.TB, _ string, clock func() time.Time) stet.Store {
		return wrap(t, memstore.New(memstore.Config{Clock: clock}), breakerstore.Config{Patience: time.Minute})
	}})
}

func TestLawsOnDisk(t *testing.T) {
	tier.Campaign(t, "the laws run over this store in another form in the gate")
	storetest.Run(t, storetest.Backend{Durable: true, Shared: true, Open: func(t testing.TB, dir string, clock func() time.Time) stet.Store {
		s, err := filestore.Open(dir, filestore.Config{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		return wrap(t, s, breakerstore.Config{Patience: time.Minute}) // a busy machine is no sick store
	}})
}

func wrap(t testing.TB, inner stet.Store, c breakerstore.Config) *breakerstore.Store {
	t.Helper()
	s, err := breakerstore.New(inner, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// told is a store that answers as told, and counts what it is asked.
type told struct {
	stet.Store
	mu    sync.Mutex
	err   error
	after time.Duration // within the caller's deadline
	asked int
}

func (s *told) say(err error, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.after = err, after
}

func (s *told) ask(ctx context.Context) error {
	s.mu.Lock()
	err, after := s.err, s.after
	s.asked++
	s.mu.Unlock()
	if after > 0 {
		select {
		case <-time.After(after):
		case <-ctx.Done():
			return fmt.Errorf("asking: %w", ctx.Err())
		}
	}
	return err
}

func (s *told) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *told) Create(ctx context.Context, r stet.Record) (stet.Record, error) { return r, s.ask(ctx) }
func (s *told) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	return stet.Record{}, s.ask(ctx)
}
func (s *told) Replace(ctx context.Context, _ stet.Version, h stet.Head, _ *stet.Body) (stet.Head, error) {
	return h, s.ask(ctx)
}
func (s *told) Delete(ctx context.Context, _ stet.ID, _ stet.Version) error { return s.ask(ctx) }
func (s *told) Due(ctx context.Context, _ stet.Query) ([]stet.Head, string, error) {
	return nil, "", s.ask(ctx)
}
func (s *told) Wait(ctx context.Context, _ stet.ID, _ stet.Version) error { return s.ask(ctx) }
func (s *told) List(ctx context.Context, _ stet.Query) ([]stet.Head, string, error) {
	return nil, "", s.ask(ctx)
}
func (s *told) Count(ctx context.Context, _ stet.Query) (int, error) { return 0, s.ask(ctx) }
func (s *told) Find(ctx context.Context, _ stet.Scope, _ string) ([]stet.Head, error) {
	return nil, s.ask(ctx)
}
func (s *told) Bind(any) (stet.Store, error) { return s, nil }
func (s *told) History(ctx context.Context, _ stet.HistoryQuery) ([]stet.Change, string, error) {
	return nil, "", s.ask(ctx)
}

func (s *told) Append(ctx context.Context, _ stet.Change) error { return s.ask(ctx) }

// verbs asks each of the five verbs once.
func verbs(ctx context.Context, s stet.Store) []error {
	_, create := s.Create(ctx, stet.Record{})
	_, get := s.Get(ctx, stet.ID{})
	_, replace := s.Replace(ctx, 1, stet.Head{}, nil)
	_, _, due := s.Due(ctx, stet.Query{})
	return []error{create, get, replace, s.Delete(ctx, stet.ID{}, 1), due}
}

var errDown = errors.New("connection refused")

// What counts as a failure, and what says nothing about the store.
func TestWhatOpensTheBreaker(t *testing.T) {
	for name, c := range map[string]struct {
		err      error
		after    time.Duration
		deadline time.Duration // 0: none
		cancel   bool
		opens    bool
	}{
		"infrastructure":                       {err: errDown, opens: true},
		"a timeout of the driver's own":        {err: context.DeadlineExceeded, opens: true},
		"a deadline that left time":            {after: time.Hour, deadline: 2 * time.Second, opens: true},
		"a deadline that left none":            {after: time.Hour, deadline: time.Millisecond},
		"a caller that gave up":                {err: errDown, after: time.Second, cancel: true},
		"exists":                               {err: fmt.Errorf("create: %w", stet.ErrExists)},
		"stale":                                {err: stet.ErrStale},
		"not found":                            {err: stet.ErrNotFound},
		"full":                                 {err: stet.ErrFull},
		"never with these bytes":               {err: fmt.Errorf("create: %w", stet.ErrRefused)},     // K08
		"come again":                           {err: fmt.Errorf("create: %w", stet.ErrBusy)},        // S17
		"another store":                        {err: fmt.Errorf("create: %w", stet.ErrForeign)},     // S03
		"unconfirmed":                          {err: fmt.Errorf("create: %w", stet.ErrUnconfirmed)}, // replays go on (B01)
		"corrupt":                              {err: fmt.Errorf("%w: a bad checksum", stet.ErrCorrupt)},
		"corrupt, found while time was up too": {err: stet.ErrCorrupt, after: time.Millisecond, deadline: 2 * time.Millisecond},
		"answers":                              {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := &told{}
				inner.say(c.err, c.after)
				s := wrap(t, inner, breakerstore.Config{Failures: 4})
				for range 2 {
					ctx, cancel := context.WithCancel(t.Context())
					if c.cancel {
						cancel()
					}
					for range 3 {
						call, end := ctx, context.CancelFunc(func() {})
						if c.deadline > 0 {
							call, end = context.WithTimeout(ctx, c.deadline)
						}
						_, err := s.Get(call, stet.ID{})
						if c.err != nil && !c.cancel && s.State() == breakerstore.Closed && !errors.Is(err, c.err) {
							t.Errorf("the store said %v, the caller hears %v", c.err, err)
						}
						end()
					}
					cancel()
				}
				if got := s.State() == breakerstore.Open; got != c.opens {
					t.Errorf("after 6 of these the breaker is %v", s.State())
				}
			})
		})
	}
}

// A store that answers half of its calls is in use: it takes as many failures as answers.
func TestFewFailuresAmongMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &told{}
		s := wrap(t, inner, breakerstore.Config{})
		mix := func(failures, answers int) {
			for range answers {
				verbs(t.Context(), s)
			}
			inner.say(errDown, 0)
			for range failures {
				_, _ = s.Get(t.Context(), stet.ID{})
			}
			inner.say(nil, 0)
		}
		mix(20, 10) // 20 of 70
		if s.State() != breakerstore.Closed {
			t.Errorf("with most calls answered the breaker is %v", s.State())
		}
		time.Sleep(20 * time.Second) // what is long ago does not count
		mix(9, 0)
		if s.State() != breakerstore.Closed {
			t.Errorf("after fewer failures than it takes the breaker is %v", s.State())
		}
		mix(1, 0)
		if s.State() != breakerstore.Open {
			t.Errorf("after as many failures as it takes the breaker is %v", s.State())
		}
	})
}

// late is a context whose deadline has passed, and that has not noticed yet.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now(), true }

// A network notices the end of a deadline before its context does: the caller gave the store no
// time all the same.
func TestDeadlinesThatTheNetworkNoticesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &told{}
		s := wrap(t, inner, breakerstore.Config{})
		inner.say(errDown, 0)
		for range 100 {
			_, _ = s.Get(late{t.Context()}, stet.ID{})
		}
		if s.State() != breakerstore.Closed {
			t.Errorf("the breaker is %v", s.State())
		}
	})
}

func open(t *testing.T, s *breakerstore.Store, inner *told) {
	t.Helper()
	inner.say(errDown, 0)
	for s.State() == breakerstore.Closed {
		_, _ = s.Get(t.Context(), stet.ID{})
	}
	if s.State() != breakerstore.Open {
		t.Fatalf("the breaker is %v", s.State())
	}
}

func TestOpenSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &told{}
		s := wrap(t, inner, breakerstore.Config{})
		open(t, s, inner)
		asked := inner.count()
		for i, err := range append(verbs(t.Context(), s), abilities(t, s)...) {
			if !errors.Is(err, breakerstore.ErrOpen) {
				t.Errorf("call %d: %v", i, err)
			}
		}
		if inner.count() != asked {
			t.Errorf("an open breaker let %d calls through", inner.count()-asked)
		}
		if b, ok := stet.As[stet.Binder](s); !ok {
			t.Error("no Binder is found")
		} else if bound, err := b.Bind(nil); err != nil || bound != stet.Store(inner) {
			t.Errorf("a caller's transaction is not its own: %v", err)
		}
	})
}

// abilities asks each optional ability once.
func abilities(t *testing.T, s stet.Store) []error {
	w, a := stet.As[stet.Waiter](s)
	l, b := stet.As[stet.Lister](s)
	c, d := stet.As[stet.Counter](s)
	f, e := stet.As[stet.Finder](s)
	h, g := stet.As[stet.Historian](s)
	if !a || !b || !d || !e || !g {
		t.Fatal("an ability is not found")
	}
	_, _, list := l.List(t.Context(), stet.Query{})
	_, count := c.Count(t.Context(), stet.Query{})
	_, find := f.Find(t.Context(), "", "name")
	_, _, history := h.History(t.Context(), stet.HistoryQuery{})
	return []error{w.Wait(t.Context(), stet.ID{}, 1), list, count, find, history, h.Append(t.Context(), stet.Change{})}
}

func TestAbilitiesPassAndAreNotCounted(t *testing.T) {
	inner := &told{}
	s := wrap(t, inner, breakerstore.Config{Failures: 1})
	inner.say(errDown, 0)
	for i, err := range abilities(t, s) {
		if !errors.Is(err, errDown) {
			t.Errorf("ability %d: %v", i, err)
		}
	}
	if s.State() != breakerstore.Closed {
		t.Errorf("the breaker is %v", s.State())
	}
}

// One probe at a time, and none that outstays its welcome: a wait is no probe.
func TestHalfOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes []string
		inner := &told{}
		s := wrap(t, inner, breakerstore.Config{Changed: func(from, to breakerstore.State) {
			changes = append(changes, fmt.Sprintf("%v to %v", from, to))
		}})
		open(t, s, inner)
		time.Sleep(time.Second + 1)
		if _, err := s.Get(t.Context(), stet.ID{}); !errors.Is(err, errDown) { // a probe that fails
			t.Errorf("the probe: %v", err)
		}
		if _, err := s.Get(t.Context(), stet.ID{}); !errors.Is(err, breakerstore.ErrOpen) {
			t.Errorf("after a failed probe: %v", err)
		}
		time.Sleep(time.Second + 1)
		for i, err := range abilities(t, s) {
			if !errors.Is(err, breakerstore.ErrOpen) {
				t.Errorf("ability %d was let through as a probe: %v", i, err)
			}
		}
		inner.say(nil, time.Second)
		var wg sync.WaitGroup
		asked := inner.count()
		for range 10 {
			wg.Go(func() { _, _ = s.Get(t.Context(), stet.ID{}) })
		}
		wg.Wait()
		if n := inner.count() - asked; n != 1 {
			t.Errorf("%d probes at a time", n)
		}
		inner.say(nil, 0)
		for i, err := range append(verbs(t.Context(), s), abilities(t, s)...) {
			if err != nil {
				t.Errorf("call %d after the store came back: %v", i, err)
			}
		}
		want := []string{"closed to open", "open to half-open", "half-open to open", "open to half-open", "half-open to closed"}
		if !slices.Equal(changes, want) {
			t.Errorf("the changes were %q", changes)
		}
	})
}

// A probe whose caller gives up says nothing, and does not take the probe's place for good.
func TestAbandonedProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &told{}
		s := wrap(t, inner, breakerstore.Config{})
		open(t, s, inner)
		time.Sleep(time.Second + 1)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		inner.say(nil, time.Second)
		if _, err := s.Get(gone, stet.ID{}); !errors.Is(err, context.Canceled) {
			t.Errorf("the abandoned probe: %v", err)
		}
		inner.say(nil, 0)
		if _, err := s.Get(t.Context(), stet.ID{}); err != nil || s.State() != breakerstore.Closed {
			t.Errorf("the next probe: %v; the breaker is %v", err, s.State())
		}
	})
}

func TestNewNamesTheSetting(t *testing.T) {
	for want, c := range map[string]breakerstore.Config{
		"Failures": {Failures: -1}, "Pause": {Pause: -1}, "Probes": {Probes: -1}, "Patience": {Patience: -1},
	} {
		if _, err := breakerstore.New(&told{}, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := breakerstore.New(nil, breakerstore.Config{}); err == nil {
		t.Error("no store is taken")
	}
}
