package tierstore_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/storetest"
	"github.com/stet-dev/stet/store/tierstore"
)

// halted is an origin whose answers to reads wait.
type halted struct {
	stet.Store
	after func()
}

func (h *halted) wait() {
	if do := h.after; do != nil {
		h.after = nil
		do()
	}
}

func (h *halted) Create(ctx context.Context, r stet.Record) (stet.Record, error) {
	got, err := h.Store.Create(ctx, r)
	h.wait()
	return got, err
}

func (h *halted) Get(ctx context.Context, id stet.ID) (stet.Record, error) {
	got, err := h.Store.Get(ctx, id)
	h.wait()
	return got, err
}

func (h *halted) Replace(ctx context.Context, prev stet.Version, head stet.Head, b *stet.Body) (stet.Head, error) {
	got, err := h.Store.Replace(ctx, prev, head, b)
	h.wait()
	return got, err
}

// What a purge of this process overtakes on its way from the origin is not put in the cache after
// the purge: not what was read, and not what was written.
func TestAnAnswerThatAPurgeOvertakesLeavesNoCopy(t *testing.T) {
	for name, ask := range map[string]func(*rig, stet.Record){
		"Get":    func(x *rig, r stet.Record) { _, _ = x.Get(x.t.Context(), r.ID) },
		"Create": func(x *rig, r stet.Record) { _, _ = x.Create(x.t.Context(), running(r.Key)) },
		"Replace": func(x *rig, r stet.Record) {
			h := r.Head
			h.Version, h.DueIn = draw(), time.Hour
			_, _ = x.Replace(x.t.Context(), r.Version, h, &r.Body)
		},
	} {
		t.Run(name, func(t *testing.T) {
			origin := &halted{Store: memory(nil)}
			x := &rig{t: t, clock: &storetest.Clock{}, origin: &counted{Store: origin}}
			x.Store = tiered(t, tierstore.NewMemory(0), x.origin, tierstore.Config{})
			done := x.sibling().complete("k")
			origin.after = func() {
				have, err := origin.Store.Get(t.Context(), done.ID)
				if err != nil {
					t.Fatal(err)
				}
				purge(t, x, have)
			}
			ask(x, done)
			if _, err := x.Get(t.Context(), done.ID); !errors.Is(err, stet.ErrNotFound) {
				t.Errorf("after the purge there is %v", err)
			}
		})
	}
}

// A result overtakes what was read before it, also one of the same instant, or too large for the
// cache.
func TestAReadThatAWriteOvertakesLeavesNoCopy(t *testing.T) {
	for _, size := range []int{10, 10 << 10} {
		clock := &storetest.Clock{}
		origin := &halted{Store: memory(clock.Now)}
		x := &rig{t: t, clock: clock, origin: &counted{Store: origin}}
		x.Store = tiered(t, tierstore.NewMemory(64<<10), x.origin, tierstore.Config{Clock: clock.Now})
		done := x.sibling().complete("k")
		h := done.Head
		h.Version, h.DueIn = draw(), time.Hour
		origin.after = func() {
			if _, err := x.Replace(t.Context(), done.Version, h, &stet.Body{Progress: make([]byte, size)}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := x.Get(t.Context(), done.ID); err != nil {
			t.Fatal(err)
		}
		if got, err := x.Get(t.Context(), done.ID); err != nil || got.Version != h.Version {
			t.Errorf("%d bytes: version %d is read after version %d was written: %v", size, got.Version, h.Version, err)
		}
	}
}

// A new record overtakes what was read of the one before, which another process has deleted.
func TestAReadThatACreateOvertakesLeavesNoCopy(t *testing.T) {
	origin := &halted{Store: memory(nil)}
	x := &rig{t: t, clock: &storetest.Clock{}, origin: &counted{Store: origin}}
	x.Store = tiered(t, tierstore.NewMemory(0), x.origin, tierstore.Config{})
	done := x.sibling().complete("k")
	var made stet.Record
	origin.after = func() {
		purge(t, x.sibling(), done)
		var err error
		if made, err = x.Create(t.Context(), running("k")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := x.Get(t.Context(), done.ID); err != nil {
		t.Fatal(err)
	}
	if have, _ := x.retry("k"); have.Version != made.Version {
		t.Errorf("version %d is replayed after version %d was made", have.Version, made.Version)
	}
}

// announcing is an origin that announces what it is told to.
type announcing struct {
	stet.Store
	heard chan uint32
	ends  chan error
	ready chan struct{}
	deaf  atomic.Bool
	asked atomic.Int64
}

func (*announcing) Hash(id stet.ID) uint32 { return uint32(len(id.Key)) }

func (a *announcing) Follow(ctx context.Context, ready func(), heard func(uint32)) error {
	a.asked.Add(1)
	if a.deaf.Load() {
		return errors.New("no right to listen")
	}
	ready()
	a.ready <- struct{}{}
	for {
		select {
		case hash := <-a.heard:
			heard(hash)
		case err := <-a.ends:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// What others change is forgotten when it is announced; everything is when announcements may have
// been missed.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		origin := &announcing{Store: memory(nil), heard: make(chan uint32), ends: make(chan error), ready: make(chan struct{})}
		x := &rig{t: t, clock: &storetest.Clock{}, origin: &counted{Store: origin}}
		x.Store = tiered(t, tierstore.NewMemory(0), x.origin, tierstore.Config{TTL: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- x.Follow(ctx) }()
		<-origin.ready
		x.complete("one")
		x.complete("three")
		known := func(key stet.Key, want bool) {
			t.Helper()
			if _, asked := x.retry(key); asked == want {
				t.Errorf("the cache knows %s: %v, want %v", key, !asked, want)
			}
		}
		known("one", true)
		known("three", true)
		origin.heard <- 3
		synctest.Wait()
		known("one", false)
		known("three", true)
		known("one", true)
		origin.ends <- errors.New("the connection is broken")
		synctest.Wait()
		known("one", false)
		known("one", true) // for its time to live
		<-origin.ready     // it is there again, and may have missed something
		synctest.Wait()
		known("one", false)
		cancel()
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// A cache that cannot hear keeps its copies for their time, asks less and less often, and says so
// once.
func TestDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		origin := &announcing{Store: memory(nil), ends: make(chan error), ready: make(chan struct{})}
		origin.deaf.Store(true)
		told := 0
		x := &rig{t: t, clock: &storetest.Clock{}, origin: &counted{Store: origin}}
		x.Store = tiered(t, tierstore.NewMemory(0), x.origin, tierstore.Config{TTL: 24 * time.Hour, Deaf: func(error) { told++ }})
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- x.Follow(ctx) }()
		check := func(want int) {
			t.Helper()
			synctest.Wait()
			if told != want {
				t.Errorf("it was told %d times, want %d", told, want)
			}
		}
		x.complete("k")
		time.Sleep(10 * time.Minute)
		check(1)
		if n := origin.asked.Load(); n < 10 || n > 20 { // 6 in the first minute, and one in each other
			t.Errorf("it asked %d times in ten minutes", n)
		}
		if _, asked := x.retry("k"); asked {
			t.Error("the copy is gone")
		}
		origin.deaf.Store(false)
		<-origin.ready
		synctest.Wait()
		if _, asked := x.retry("k"); !asked {
			t.Error("the copy outlives what may have been missed")
		}
		before := origin.asked.Load()
		origin.ends <- errors.New("the connection is broken")
		<-origin.ready
		check(1) // it was there again at once
		if n := origin.asked.Load() - before; n != 1 {
			t.Errorf("it asked %d times for a new connection", n)
		}
		origin.deaf.Store(true)
		origin.ends <- errors.New("the connection is broken")
		time.Sleep(time.Hour)
		check(2)
		cancel()
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestNothingToFollow(t *testing.T) {
	x := &rig{t: t, clock: &storetest.Clock{}, origin: &counted{Store: memory(nil)}}
	if err := tiered(t, tierstore.NewMemory(0), x.origin, tierstore.Config{}).Follow(t.Context()); !errors.Is(err, stet.ErrUnsupported) {
		t.Error(err)
	}
}
