// Package storetest tests stores: it contains the laws that every [stet.Store] keeps. A store is
// finished when [Run] passes.
//
//	func TestLaws(t *testing.T) {
//		storetest.Run(t, storetest.Backend{
//			Durable: true,
//			Open: func(t testing.TB, dir string, clock func() time.Time) stet.Store {
//				s, err := mystore.Open(filepath.Join(dir, "records"), clock)
//				if err != nil {
//					t.Fatal(err)
//				}
//				return s
//			},
//		})
//	}
//
// Each law is a subtest and one sentence, which the test prints when the law fails. Laws about an
// ability apply to stores that have it; a law that does not apply is skipped, and the test says
// why. A bug that is found in one store becomes a law for all.
//
// Call Run from exactly one top-level test of a test binary: some laws start the binary again as
// another process, which runs that test by its name, and kill it.
//
// A wrapper is a store, too: open one around a store that passes.
package storetest

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
)

// Backend describes a store to test. Only Open is required.
type Backend struct {
	// Open opens the store that keeps its data in dir. If dir does not exist or is empty, so is the
	// store. clock is the clock of the store; nil means the real one. A store whose clock runs
	// elsewhere, in a server, ignores clock and sets ServerClock. A store that is a [io.Closer]
	// is closed at the end.
	Open func(t testing.TB, dir string, clock func() time.Time) stet.Store
	// ServerClock means that the store ignores the clock given to Open. Laws about time then wait
	// for real time to pass, or are skipped.
	ServerClock bool
	// Durable means that acknowledged writes survive Close and Open, and kill -9.
	Durable bool
	// Shared means that dir may be open several times at once, also in several processes.
	Shared bool
	// Begin begins a transaction on the database of s, a store that Open returned. It is required
	// for stores that are a [stet.Binder], and nil for others. tx is the argument for Bind. The
	// test calls either commit or rollback, once.
	Begin func(t testing.TB, s stet.Store) (tx any, commit, rollback func() error)
	// Send sends a statement, such as ROLLBACK, on the session of tx, a transaction of Begin: the
	// laws end transactions by it as a handler might, or the database. It is nil only if no session
	// outlives its transaction; a comment should say so.
	Send func(t testing.TB, tx any, statement string)
	// Tamper changes the stored record of id without the knowledge of s, a store that Open
	// returned: as another program, a failing disk, or a server with another clock might. It is nil
	// only if nothing else can reach what is stored; a comment should say so.
	Tamper func(t testing.TB, s stet.Store, id stet.ID, with Tampering)
	// Unconfirmed makes writes of s take effect without being confirmed, as if a replica were away,
	// until restore is called. It is nil for stores without replicas.
	Unconfirmed func(t testing.TB, s stet.Store) (restore func())
	// Backup makes a copy of all that the store of s has; restore puts it in the place of what is
	// stored by then, as an administrator would who restores a backup while the store is open. It
	// is nil for stores whose contents cannot be exchanged while they are open.
	Backup func(t testing.TB, s stet.Store) (restore func())
	// Empty puts what a new store has in the place of all that the store of s has, as by FLUSHALL,
	// while the store is open. It is nil for stores whose contents cannot be exchanged so.
	Empty func(t testing.TB, s stet.Store)
	// Look is how many records a page of List reads at most before it ends short. The laws then
	// list among more records than that. 0 means that a page reads as many as it takes.
	Look int
}

// Tampering says how [Backend].Tamper changes a record. Exactly one field is set.
type Tampering struct {
	// Format gives the record a format that this version does not know, and changes nothing else.
	Format bool
	// Version gives the record this version. Checksums stay as they are, or are corrected if they
	// can be.
	Version stet.Version
	// Ahead moves the instants of the record into the future by that much, as if a server whose
	// clock is ahead had written them.
	Ahead time.Duration
}

// Clock is a clock that stands still until a test moves it. The zero value shows an odd number of
// microseconds. It is safe for concurrent use.
type Clock struct{ moved atomic.Int64 }

// Now returns the time that the clock shows, in UTC.
func (c *Clock) Now() time.Time {
	return time.UnixMicro(1_763_000_000_123_457).Add(time.Duration(c.moved.Load())).UTC()
}

// Advance moves the clock by d, which may be negative.
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

	opened   stet.Store    // what Open returned; store may be a wrapper of it, or bound to a transaction
	patience time.Duration // how long a call may go on beyond its deadline
}

// Run checks all laws, each on a fresh store and as a parallel subtest of t.
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
	x := &bench{Backend: b, t: t, dir: t.TempDir(), clock: &Clock{}, ctx: t.Context(), patience: 20 * time.Second}
	x.opened = x.open()
	x.store = x.opened
	return x
}

func laws() []law {
	var all []law
	for _, family := range [][]law{verbLaws, timeLaws, pageLaws, tagLaws, filterLaws, resultLaws, dataLaws, abilityLaws, findLaws,
		sizeLaws, roomLaws, leftLaws, identityLaws, historyLaws, forgetLaws, reapLaws, bindLaws, tamperLaws, unconfirmedLaws, faultLaws, durabilityLaws} {
		all = append(all, family...)
	}
	return all
}

// open opens the directory of x again. The store is closed when the test ends.
func (x *bench) open() stet.Store {
	s := x.Open(x.t, x.dir, x.clock.Now)
	x.t.Cleanup(func() { closeStore(x.t, s) })
	return s
}

func closeStore(t testing.TB, s stet.Store) {
	if c, ok := s.(io.Closer); ok {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

// pass lets the clock of the store move on by d.
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

// running returns a record as a first request creates it.
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

// within makes a call with a deadline in d, which may be negative, and fails if it does not return
// soon after.
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
