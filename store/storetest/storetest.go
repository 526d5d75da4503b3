// Package storetest holds the laws that every store keeps. A store is done when [Run] passes; a bug found in one store becomes
// a law for all. A law that fails shows its sentence.
//
//	func TestLaws(t *testing.T) {
//		storetest.Run(t, storetest.Backend{Durable: true, Open: func(t testing.TB, dir string, clock func() time.Time) stet.Store {
//			…
//		}})
//	}
//
// Call Run from a top-level test, and from one only: some laws run the test binary once more, as another process, and kill it.
// Wrappers are stores too: open one around a store that passes.
package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// Backend is a store to be tested.
type Backend struct {
	// Open opens the store that keeps its data in dir; a fresh dir is an empty store, and need not exist. clock is the store's
	// clock, nil the real one; a store that cannot be given one (it runs in a server) ignores it and sets ServerClock. A store
	// that is a [stet.Closer] is closed in the end.
	Open        func(t testing.TB, dir string, clock func() time.Time) stet.Store
	ServerClock bool
	Durable     bool // what was acknowledged is there after Close and Open, and after kill -9
	Shared      bool // dir may be open more than once, also in several processes
	// Begin begins a transaction of a caller's on the database of s, which Open returned: for stores that are a [stet.Binder],
	// and nil for others. tx is what Bind takes. The test ends it, once.
	Begin func(t testing.TB, s stet.Store) (tx any, commit, rollback func() error)
	// Tamper changes the stored record of id behind the back of s, which Open returned, as another program, a failing disk or a
	// server with another clock would have. Nil where nobody else can reach what is stored: say so in a comment.
	Tamper func(t testing.TB, s stet.Store, id stet.ID, with Tampering)
	// Unconfirmed makes writes of s happen without being confirmed, as where a replica is away, until restore is called; nil for
	// stores that confirm alone.
	Unconfirmed func(t testing.TB, s stet.Store) (restore func())
}

// Tampering is what [Backend].Tamper does to a record: one field is set.
type Tampering struct {
	Format  bool          // it says that it is of a format this version does not know; all else is as it was
	Version stet.Version  // it has this version; all else is as it was, checksums included where they can be made to fit
	Ahead   time.Duration // its instants lie so much later, as a server whose clock was ahead had written them
}

// Clock is a clock that tests move. The zero value stands at an odd instant, in whole microseconds.
type Clock struct{ moved atomic.Int64 }

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	return time.UnixMicro(1_763_000_000_123_457).Add(time.Duration(c.moved.Load())).UTC()
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) { c.moved.Add(int64(d)) }

// law is one promise of every store.
type law struct {
	name     string
	sentence string
	check    func(t testing.TB, x *bench)
}

// bench is what a law works on: one fresh store.
type bench struct {
	Backend
	t     testing.TB
	dir   string
	clock *Clock
	store stet.Store
	ctx   context.Context

	opened   stet.Store    // as Open returned it, where store is it wrapped or bound
	patience time.Duration // with a call beyond its deadline
}

// Run checks all laws. A law that does not apply is skipped, with the reason.
func Run(t *testing.T, b Backend) {
	if beChild(t, b) {
		return
	}
	for _, l := range laws() {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if t.Failed() {
					t.Logf("the law: %s", l.sentence)
				}
			}()
			l.check(t, newBench(t, b))
		})
	}
}

func newBench(t testing.TB, b Backend) *bench {
	x := &bench{Backend: b, t: t, dir: t.TempDir(), clock: &Clock{}, ctx: t.Context(), patience: 5 * time.Second}
	x.opened = x.open()
	x.store = x.opened
	return x
}

func laws() []law {
	var all []law
	for _, family := range [][]law{verbLaws, timeLaws, pageLaws, tagLaws, filterLaws, resultLaws, dataLaws, abilityLaws, findLaws, historyLaws, reapLaws, bindLaws, tamperLaws, unconfirmedLaws,
		faultLaws, durabilityLaws} {
		all = append(all, family...)
	}
	return all
}

// open opens x's directory once more; the handle is closed when the test ends.
func (x *bench) open() stet.Store {
	s := x.Open(x.t, x.dir, x.clock.Now)
	x.t.Cleanup(func() { closeStore(x.t, s) })
	return s
}

func closeStore(t testing.TB, s stet.Store) {
	if c, ok := s.(stet.Closer); ok {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

// pass lets d pass by the store's clock.
func (x *bench) pass(d time.Duration) {
	if !x.ServerClock {
		x.clock.Advance(d)
		return
	}
	timer := time.NewTimer(d + 50*time.Millisecond)
	defer timer.Stop()
	<-timer.C
}

func draw() stet.Version { return stet.Version(rand.Uint64()>>1 | 1) }

// running is a record as a first request would create it.
func running(key string) stet.Record {
	return stet.Record{Head: stet.Head{ID: stet.ID{Scope: "tenant", Key: stet.Key(key)}, Version: draw(), State: stet.Running,
		Fingerprint: stet.Fingerprint{Recipe: "1 auto", Sum: [32]byte{1, 2, 3}, Parts: [5]uint32{1, 2, 3, 4, 5}},
		Attempt:     1, Holder: "host:1", Route: "charges", Method: "POST", Path: "/v1/charges",
		Rules: stet.Rules{Retain: time.Hour}, DueIn: time.Minute}}
}

// must create.
func (x *bench) create(r stet.Record) stet.Record {
	x.t.Helper()
	got, err := x.store.Create(x.ctx, r)
	if err != nil {
		x.t.Fatalf("Create: %v", err)
	}
	return got
}

func (x *bench) get(id stet.ID) stet.Record {
	x.t.Helper()
	got, err := x.store.Get(x.ctx, id)
	if err != nil {
		x.t.Fatalf("Get: %v", err)
	}
	return got
}

// must replace prev's record by what change makes of its head.
func (x *bench) replace(prev stet.Head, b *stet.Body, change func(h *stet.Head)) stet.Head {
	x.t.Helper()
	next := prev
	next.Version, next.DueIn = draw(), time.Minute
	change(&next)
	got, err := x.store.Replace(x.ctx, prev.Version, next, b)
	if err != nil {
		x.t.Fatalf("Replace: %v", err)
	}
	return got
}

func completed(h *stet.Head) {
	h.State, h.Status, h.DueIn = stet.Completed, 201, time.Hour
}

// within gives call so much time, which may be none, and waits a little longer for it to return.
func (x *bench) within(d time.Duration, name string, call func(ctx context.Context)) {
	x.t.Helper()
	ctx, cancel := context.WithDeadline(x.ctx, time.Now().Add(d))
	defer cancel()
	returned := make(chan struct{})
	go func() { defer close(returned); call(ctx) }()
	limit := time.NewTimer(max(0, d) + x.patience)
	defer limit.Stop()
	select {
	case <-returned:
	case <-limit.C:
		x.t.Fatalf("%s: the deadline was over, and %v later there is no answer", name, x.patience)
	}
}

func key(i int) string { return fmt.Sprintf("key-%06d", i) }
