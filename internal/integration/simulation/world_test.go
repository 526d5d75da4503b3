package simulation

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
	"pgregory.net/rapid"
)

const (
	// beat is how long an action takes, with what it leaves to be tried again: engines vary their pauses, and a history that fails has to
	// fail every time. A try and the pause before it take five seconds at most.
	beat   = 6 * time.Second
	lease  = 2*time.Minute + beat/2
	retain = time.Hour + beat/2
	// flight is how long after the end of its lease a message of a run's may still reach the provider. It is what the
	// reconciler's settling time has to cover.
	flight = 2 * time.Minute
	settle = 6*time.Minute + beat/2
)

// setting is what may be wrong with a world, so that one can see that it would be noticed.
type setting struct {
	settle    time.Duration    // other than settle: a reconciler that takes an absence for a proof
	overwrite bool             // the store writes whatever version is there
	evict     bool             // the store drops whatever is due
	read      func(*stet.Head) // falsifies what engines get to see
	written   func(*stet.Head) // falsifies what they write
}

// counts are what histories were made of.
type counts struct{ executed, effects, replayed, fenced, resolved, again, late int }

// world is what one history happens in.
type world struct {
	ctx     context.Context
	t       *rapid.T
	setting setting
	seen    *counts
	store   *memstore.Store
	skew    atomic.Int64 // nanoseconds that the store's clock is ahead
	hosts   [2]*host     // that are alive
	all     []*host
	asked   []question

	mu     sync.Mutex       // of what follows, since engines finish things by themselves
	losses []loss           // of the messages about each key, in this action
	calls  map[stet.Key]int // messages about each key, in this action
	late   []func()         // writes that are still on their way
	begun  stet.Version     // of the latest write in this action that let somebody execute
	notes  int              // that the history has to have
	fences map[stet.Key]int64
	runs   []*run
	risked map[time.Time]bool // lives that were allowed to run again after a lapse
	told   map[time.Time]string
}

// host is a process.
type host struct {
	*stet.Engine
	cut bool // off from the store; under world.mu
}

// run is one execution of a handler.
type run struct {
	host    *host
	claim   *stet.Claim
	id      stet.ID
	payload string
	life    time.Time
	fence   int64
	lease   time.Time // its end, by the store's clock, as the holder knows it
	answer  string    // what the handler settled with
	doubted bool      // it was settled as unknown once
	steps   int
	over    bool // the handler does nothing any more

	published     bool // bytes of its answer have left
	sent, arrived bool // the message to the provider
	voided        bool // the provider will refuse it
	proven        bool // the handler said that it sent nothing, and nothing was sent
}

func newWorld(ctx context.Context, t *rapid.T, s setting, seen *counts) *world {
	w := &world{ctx: ctx, t: t, setting: s, seen: seen, calls: map[stet.Key]int{}, fences: map[stet.Key]int64{},
		risked: map[time.Time]bool{}, told: map[time.Time]string{}}
	w.store = memstore.New(memstore.Config{Clock: w.now})
	w.hosts = [2]*host{w.start(), w.start()}
	return w
}

func (w *world) start() *host {
	h := &host{}
	e, err := stet.New(&line{w.store, w, h}, stet.Config{Holder: fmt.Sprint("process ", len(w.all))})
	if err != nil {
		w.t.Fatal(err)
	}
	h.Engine = e
	w.all = append(w.all, h)
	return h
}

// end lets what engines do by themselves come to its end: a bubble waits for that.
func (w *world) end() {
	w.mu.Lock()
	w.losses = nil
	w.mu.Unlock()
	for _, h := range w.all {
		_ = h.Drain(w.ctx)
	}
}

// now is by the store's clock.
func (w *world) now() time.Time {
	return time.Now().Add(time.Duration(w.skew.Load())).UTC().Truncate(time.Microsecond)
}

// stored returns the record of id, or nil.
func (w *world) stored(id stet.ID) *stet.Record {
	r, err := w.store.Get(context.Background(), id)
	if err != nil {
		return nil
	}
	return &r
}

// granted returns the run that h's record belongs to. There is none where a request gave up before it was told that it had won.
func (w *world) granted(h *stet.Head) *run {
	for _, r := range w.runs {
		if r.id == h.ID && r.fence == h.Fence() {
			return r
		}
	}
	return nil
}

// effects returns the runs of a life whose effects the provider has, and whether it may get more; but for one run's, or nil.
func (w *world) effects(id stet.ID, life time.Time, but *run) (done []*run, open bool) {
	for _, r := range w.runs {
		if r == but || r.id != id || !r.life.Equal(life) {
			continue
		}
		if r.arrived {
			done = append(done, r)
		}
		open = open || r.mayArrive(w.now())
	}
	return done, open
}

// published reports whether bytes of an answer have left in a life.
func (w *world) published(id stet.ID, life time.Time) bool {
	return slices.ContainsFunc(w.runs, func(r *run) bool { return r.id == id && r.life.Equal(life) && r.published })
}

// mayArrive reports whether r may still have an effect that it has not had yet.
func (r *run) mayArrive(now time.Time) bool {
	silent := (r.over || r.doubted) && !r.sent
	return !r.arrived && !r.voided && !r.proven && !silent && now.Before(r.lease.Add(flight))
}
