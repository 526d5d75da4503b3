package tierstore_test

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/storetest"
	"github.com/stet-dev/stet/store/storetest/faulty"
	"github.com/stet-dev/stet/store/tierstore"
)

// counted counts what a store is asked.
type counted struct {
	stet.Store
	asked atomic.Int64
}

func (c *counted) Unwrap() stet.Store { return c.Store }

func (c *counted) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	c.asked.Add(1)
	return c.Store.Create(ctx, r)
}

func (c *counted) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	c.asked.Add(1)
	return c.Store.Get(ctx, id)
}

// rig is a tier whose parts can be watched, and whose clock is moved by hand.
type rig struct {
	*tierstore.Store
	t      testing.TB
	clock  *storetest.Clock
	origin *counted
	cache  *faulty.Store // of a shared cache
}

// rigs runs a test with a cache in memory, and with a shared one.
func rigs(t *testing.T, c tierstore.Config, test func(t *testing.T, x *rig)) {
	t.Run("memory", func(t *testing.T) {
		x := &rig{t: t, clock: &storetest.Clock{}}
		c.Clock = x.clock.Now
		x.origin = &counted{Store: memory(x.clock.Now)}
		x.Store = tiered(t, tierstore.NewMemory(0), x.origin, c)
		test(t, x)
	})
	t.Run("shared", func(t *testing.T) {
		x := &rig{t: t, clock: &storetest.Clock{}}
		c.Clock = x.clock.Now
		x.origin = &counted{Store: memory(x.clock.Now)}
		x.cache = faulty.New(memory(x.clock.Now), 1)
		x.Store = tiered(t, tierstore.Shared(x.cache), x.origin, c)
		test(t, x)
	})
}

// sibling is another process on the same origin, with a cache of its own.
func (x *rig) sibling() *rig {
	s := *x
	s.Store = tiered(x.t, tierstore.NewMemory(0), x.origin, tierstore.Config{Clock: x.clock.Now})
	return &s
}

var version stet.Version = 1

func draw() stet.Version { version++; return version }

func running(key stet.Key) stet.Record {
	return stet.Record{Head: stet.Head{ID: stet.ID{Scope: "s", Key: key}, Version: draw(), State: stet.Running, Attempt: 1,
		Fingerprint: stet.Fingerprint{Recipe: "1 auto", Sum: [32]byte{1}}, DueIn: time.Minute}}
}

// complete makes a record that is completed, with everything a head and a body can have.
func (x *rig) complete(key stet.Key) stet.Record {
	x.t.Helper()
	made, err := x.Create(x.t.Context(), running(key))
	if err != nil {
		x.t.Fatal(err)
	}
	h := made.Head
	h.Version, h.State, h.Status, h.Size, h.DueIn = draw(), stet.Completed, 201, 4, time.Hour
	h.Meta, h.Note = map[string]string{"a": "\xff"}, &stet.Note{Who: "ops", Why: "asked", Evidence: "ch_1", Notice: "msg_1"}
	h.Rules = stet.Rules{Retain: time.Hour, KeepExpired: time.Minute, FromCreation: true, OnLapse: stet.LapseAtomic}
	h.Route, h.DownstreamID, h.Reconciled, h.Took = "charges", "ch_1", true, time.Second
	b := stet.Body{Response: &stet.Response{Status: 201, Header: []stet.Field{{Name: "X", Value: "y"}}, Body: []byte("body")}, Progress: []byte("p")}
	got, err := x.Replace(x.t.Context(), made.Version, h, &b)
	if err != nil {
		x.t.Fatal(err)
	}
	b.Response.Body[0], b.Response.Header[0].Value, b.Progress[0] = 'X', "spoilt", 'X' // no store keeps the caller's memory
	whole, err := x.origin.Store.Get(x.t.Context(), got.ID)
	if err != nil {
		x.t.Fatal(err)
	}
	return whole
}

// retry is what a request does first; it returns the incumbent, and whether the origin was asked
// for it.
func (x *rig) retry(key stet.Key) (have stet.Record, asked bool) {
	x.t.Helper()
	before := x.origin.asked.Load()
	have, err := x.Create(x.t.Context(), running(key))
	if !errors.Is(err, stet.ErrExists) {
		x.t.Fatalf("a retry: %v, want ErrExists", err)
	}
	return have, x.origin.asked.Load() > before
}

func TestReplaysComeFromTheCache(t *testing.T) {
	rigs(t, tierstore.Config{}, func(t *testing.T, x *rig) {
		want := x.complete("k")
		x.clock.Advance(10 * time.Second)
		have, asked := x.retry("k")
		if asked {
			t.Error("the origin was asked")
		}
		if age := have.AsOf.Sub(want.AsOf); age < 10*time.Second || age > 11*time.Second || have.AsOf.Nanosecond()%1000 != 0 {
			t.Errorf("after 10 s the record is %s older: %v", age, have.AsOf)
		}
		want.AsOf = have.AsOf
		if !reflect.DeepEqual(have, want) {
			t.Errorf("the cache answers %+v\nwant %+v", have, want)
		}
		before := x.origin.asked.Load()
		got, err := x.Get(t.Context(), want.ID)
		want.AsOf = got.AsOf
		if err != nil || x.origin.asked.Load() != before || !reflect.DeepEqual(got, want) {
			t.Errorf("Get: %+v, %v", got, err)
		}
	})
}

// What another process completed is read once, and then from the cache.
func TestReadThrough(t *testing.T) {
	rigs(t, tierstore.Config{}, func(t *testing.T, x *rig) {
		x.sibling().complete("k")
		if _, asked := x.retry("k"); !asked {
			t.Error("a cache that was never told knows the record")
		}
		if _, asked := x.retry("k"); asked {
			t.Error("the record was not put in the cache")
		}
		if _, err := x.Get(t.Context(), stet.ID{Scope: "s", Key: "absent"}); !errors.Is(err, stet.ErrNotFound) {
			t.Errorf("an absent record: %v", err)
		}
	})
}

// A retention ends when the origin says so: a copy never believes itself younger than it is.
func TestRetentionEndsInCacheToo(t *testing.T) {
	rigs(t, tierstore.Config{TTL: 24 * time.Hour}, func(t *testing.T, x *rig) {
		want := x.complete("k")
		x.clock.Advance(time.Hour - time.Second)
		if have, asked := x.retry("k"); asked || have.Over() {
			t.Errorf("a second before its end, asked the origin: %v, over: %v", asked, have.Over())
		}
		x.clock.Advance(time.Second)
		if have, asked := x.retry("k"); !asked || !have.Over() || have.Version != want.Version {
			t.Errorf("at its end, asked the origin: %v, over: %v", asked, have.Over())
		}
	})
}

// slowOrigin answers late: what it says is old when it arrives.
type slowOrigin struct {
	stet.Store
	pass func()
}

func (s slowOrigin) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	r, err := s.Store.Get(ctx, id)
	s.pass()
	return r, err
}

func TestTheWayFromTheOriginCounts(t *testing.T) {
	rigs(t, tierstore.Config{TTL: 24 * time.Hour}, func(t *testing.T, x *rig) {
		done := x.sibling().complete("k")
		late := *x
		slow := slowOrigin{x.origin, func() { x.clock.Advance(40 * time.Minute) }}
		late.Store = tiered(t, tierstore.NewMemory(0), slow, tierstore.Config{TTL: 24 * time.Hour, Clock: x.clock.Now})
		if _, err := late.Get(t.Context(), done.ID); err != nil {
			t.Fatal(err)
		}
		x.clock.Advance(21 * time.Minute)
		if have, asked := late.retry("k"); !asked || !have.Over() {
			t.Errorf("61 minutes after it was read the copy is used; over: %v", have.Over())
		}
	})
}

// The longest time for which a purge elsewhere goes unnoticed includes the one that the origin took
// to answer: it may have been made right after the question.
func TestTTLCountsFromTheQuestion(t *testing.T) {
	rigs(t, tierstore.Config{}, func(t *testing.T, x *rig) {
		done := x.sibling().complete("k")
		cache := tierstore.Cache(tierstore.NewMemory(0))
		if x.cache != nil {
			cache = tierstore.Shared(x.cache)
		}
		late := *x
		slow := slowOrigin{x.origin, func() { x.clock.Advance(tierstore.DefaultTTL - 20*time.Second) }}
		late.Store = tiered(t, cache, slow, tierstore.Config{Clock: x.clock.Now})
		if _, err := late.Get(t.Context(), done.ID); err != nil {
			t.Fatal(err)
		}
		x.clock.Advance(19 * time.Second)
		if _, asked := late.retry("k"); asked {
			t.Error("a copy that is not too old is not used")
		}
		x.clock.Advance(2 * time.Second)
		if _, asked := late.retry("k"); !asked {
			t.Error("a copy is used that is older than it may be")
		}
	})
}

func purge(t *testing.T, x *rig, r stet.Record) {
	t.Helper()
	h := r.Head
	h.Version, h.State, h.DueIn = draw(), stet.Expired, 0
	if _, err := x.Replace(t.Context(), r.Version, h, &stet.Body{}); err != nil {
		t.Fatal(err)
	}
	if err := x.Delete(t.Context(), r.ID, h.Version); err != nil {
		t.Fatal(err)
	}
}

// FX-15: a purge through this cache is seen at once; through another one when the copies here are
// TTL old.
func TestPurge(t *testing.T) {
	rigs(t, tierstore.Config{}, func(t *testing.T, x *rig) {
		done := x.complete("own")
		x.retry("own")
		purge(t, x, done)
		if _, err := x.Create(t.Context(), running("own")); err != nil {
			t.Errorf("after a purge the key is not free: %v", err)
		}
		done = x.complete("other")
		purge(t, x.sibling(), done)
		x.clock.Advance(tierstore.DefaultTTL - time.Second)
		if have, _ := x.retry("other"); have.Version != done.Version {
			t.Error("within TTL another result is replayed")
		}
		x.clock.Advance(2 * time.Second)
		if _, err := x.Create(t.Context(), running("other")); err != nil {
			t.Errorf("when the copy is too old the key is not free: %v", err)
		}
	})
}

// A writer who read an old copy is told by the origin, and then reads what is there.
func TestStaleReplaceOnTheOriginWins(t *testing.T) {
	rigs(t, tierstore.Config{}, func(t *testing.T, x *rig) {
		done := x.complete("k")
		h := done.Head
		h.Version, h.DueIn = draw(), 10*time.Hour
		extended, err := x.sibling().Replace(t.Context(), done.Version, h, nil)
		if err != nil {
			t.Fatal(err)
		}
		old, err := x.Get(t.Context(), done.ID)
		if err != nil || old.Version != done.Version {
			t.Fatalf("the copy is not there: %v", err)
		}
		h.Version = draw()
		shown, err := x.Replace(t.Context(), old.Version, h, nil)
		if !errors.Is(err, stet.ErrStale) || shown.Version != extended.Version {
			t.Errorf("the origin was overruled: %v", err)
		}
		if got, err := x.Get(t.Context(), done.ID); err != nil || got.Version != extended.Version || !got.DueAt.Equal(extended.DueAt) {
			t.Errorf("the old copy is still read: %v", err)
		}
	})
}

// B09: a Replace that was not answered may have happened: what was there before it is not replayed
// any more.
func TestUnansweredReplaceDropsTheCopy(t *testing.T) {
	clock := &storetest.Clock{}
	origin := faulty.New(memory(clock.Now), 1)
	x := &rig{t: t, clock: clock, origin: &counted{Store: origin}}
	x.Store = tiered(t, tierstore.NewMemory(0), x.origin, tierstore.Config{Clock: clock.Now})
	made, err := x.Create(t.Context(), running("k"))
	if err != nil {
		t.Fatal(err)
	}
	done := made.Head
	done.Version, done.State, done.DueIn = draw(), stet.Completed, time.Hour
	if done, err = x.Replace(t.Context(), made.Version, done, &stet.Body{Response: &stet.Response{Status: 201}}); err != nil {
		t.Fatal(err)
	}
	if _, asked := x.retry("k"); asked {
		t.Fatal("there is no copy in the cache")
	}
	for name, body := range map[string]*stet.Body{"with a body": {}, "without": nil} {
		next := done
		next.Version, next.DueIn = draw(), time.Hour
		origin.LoseReplies(1)
		if _, err := x.Replace(t.Context(), done.Version, next, body); !errors.Is(err, faulty.ErrFault) {
			t.Fatalf("%s: Replace: %v", name, err)
		}
		origin.Up()
		have, asked := x.retry("k")
		if !asked || have.Version != next.Version {
			t.Errorf("%s: version %d is replayed, and %d is there; asked the origin: %v", name, have.Version, next.Version, asked)
		}
		done = have.Head
	}
}

// B09: a copy may have been on its way to a shared cache for as long as a call may take, and counts
// that as its age.
func TestTheWayToASharedCacheCounts(t *testing.T) {
	const timeout = 10 * time.Second
	rigs(t, tierstore.Config{TTL: 24 * time.Hour, Timeout: timeout}, func(t *testing.T, x *rig) {
		x.complete("k") // for an hour
		x.clock.Advance(time.Hour - timeout - time.Second)
		if _, asked := x.retry("k"); asked {
			t.Error("a copy whose retention is not over in any case is not used")
		}
		x.clock.Advance(time.Second)
		if have, asked := x.retry("k"); asked != (x.cache != nil) || have.Over() {
			t.Errorf("with %v left the origin was asked: %v", timeout, asked)
		}
	})
}

func TestOriginDownReplaysCache(t *testing.T) {
	clock := &storetest.Clock{}
	origin := faulty.New(memory(clock.Now), 1)
	x := &rig{t: t, clock: clock, origin: &counted{Store: origin}}
	x.Store = tiered(t, tierstore.NewMemory(0), x.origin, tierstore.Config{Clock: clock.Now})
	x.complete("k")
	origin.Down()
	if _, asked := x.retry("k"); asked {
		t.Error("the origin was asked")
	}
	if _, err := x.Create(t.Context(), running("new")); !errors.Is(err, faulty.ErrFault) {
		t.Errorf("a new key while the origin is down: %v", err)
	}
}

// A cache that is down changes no answer, and is left alone for a while; one that is slow costs its
// timeout, once.
func TestCacheDownOrSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := &counted{Store: memory(nil)}
		sick := faulty.New(cache, 1)
		x := &rig{t: t, clock: &storetest.Clock{}, origin: &counted{Store: memory(nil)}}
		x.Store = tiered(t, tierstore.Shared(sick), x.origin, tierstore.Config{})
		sick.Down()
		x.complete("a")
		sick.Up()
		if _, asked := x.retry("a"); !asked {
			t.Error("a cache that was down knows the record")
		}
		if cache.asked.Load() != 0 {
			t.Error("a cache that failed was not left alone")
		}
		time.Sleep(time.Second)
		x.retry("a")
		if _, asked := x.retry("a"); asked {
			t.Error("a cache that is up again is not used")
		}
		sick.Slow(time.Hour)
		began := time.Now()
		for range 5 {
			x.retry("a")
		}
		x.complete("b")
		if took := time.Since(began); took > 50*time.Millisecond {
			t.Errorf("a slow cache cost %s", took)
		}
		time.Sleep(time.Second)
		x.sibling().complete("c")
		sick.Slow(75 * time.Millisecond / 2) // looking takes this long, and writing it down as long again
		began = time.Now()
		x.retry("c")
		if took := time.Since(began); took > 50*time.Millisecond {
			t.Errorf("reading and writing cost %s together", took)
		}
	})
}

// With a cache that fails as it likes, nothing runs twice, and what was settled is replayed (I1).
func TestAnyCacheIsSafe(t *testing.T) {
	sick := faulty.New(memory(nil), 7)
	sick.Lose(0.4, 0.4)
	engine, err := stet.New(tiered(t, tierstore.Shared(sick), memory(nil), tierstore.Config{InFlight: true}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for k := range 100 {
		var ran atomic.Int64
		q := stet.Request{ID: stet.ID{Scope: "s", Key: stet.Key(rune('A' + k))}}
		for range 4 {
			wg.Go(func() {
				d, err := engine.Begin(t.Context(), q)
				switch {
				case err != nil:
					t.Errorf("key %d: %v", k, err)
				case d.Verdict == stet.Execute && ran.Add(1) > 1:
					t.Errorf("key %d ran twice", k)
				case d.Verdict == stet.Execute:
					if err := d.Claim.Settle(t.Context(), stet.Outcome{Response: stet.Response{Status: 201}}); err != nil {
						t.Errorf("key %d: %v", k, err)
					}
				}
			})
		}
	}
	wg.Wait()
}
