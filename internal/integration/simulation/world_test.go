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
	// beat is how long an action takes, with what it leaves to be tried again: engines vary their
	// pauses, and a history that fails has to fail every time. A try and the pause before it take
	// five seconds at most.
	beat   = 6 * time.Second
	lease  = 2*time.Minute + beat/2
	retain = time.Hour + beat/2
	// flight is how long after the end of its lease a message of a run's may still reach the
	// provider. It is what the reconciler's settling time has to cover.
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
type counts struct {
	executed, effects, replayed, fenced, resolved, again, late int
	handed, adopted, heeded, unheeded, unplaced, doubled       int // see [run], [world.doubted], [machine.Notify] and [world.account]
}

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
	begun  stet.Version     // of the latest write in this action that let a client execute
	notes  int              // that the history has to have
	fences map[stet.Key]int64
	runs   []*run
	risked map[time.Time]bool // lives that were allowed to run again after a lapse, or were freed against what speaks against it
	told   map[time.Time]string

	notices []*notice
}

// host is a process.
type host struct {
	*stet.Engine
	name  string
	cut   bool             // off from the store; under world.mu
	ended bool             // it was killed
	told  map[outcome]bool // what it has said of executions whose outcome no record takes, or takes as the second
}

// outcome is what an event names of an execution.
type outcome struct {
	id      stet.ID
	attempt int
	fence   int64 // 0: the event names the attempt
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
	overdue bool      // ... and the handler is still at work
	handed  bool      // its client was given the answer, and the store had not taken it
	placed  bool      // the answer came into a record, as the result or as evidence
	ruled   bool      // its record was completed without it
	left    bool      // another went on with it after a lapse, which its rule allows
	spoken  bool      // its handler has said what became of it, or has returned
	steps   int
	over    bool // the handler does nothing any more

	published     bool // bytes of its answer have left
	sent, arrived bool // the message to the provider
	sentAt        time.Time
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
	h := &host{name: fmt.Sprint("process ", len(w.all)), told: map[outcome]bool{}}
	e, err := stet.New(&line{w.store, w, h}, stet.Config{Holder: h.name, Observe: func(ev stet.Event) { w.observe(h, ev) }})
	if err != nil {
		w.t.Fatal(err)
	}
	h.Engine = e
	w.all = append(w.all, h)
	return h
}

// end lets what engines do by themselves come to its end: a bubble waits for that.
func (w *world) end() {
	w.change(func() { w.losses = nil })
	for _, r := range w.runs {
		if r.doubted {
			r.claim.Returned(w.ctx) // it attends no longer
		}
	}
	after(beat)
	for _, h := range w.all {
		_ = h.Drain(w.ctx)
	}
}

// observe takes down what a process says of results that do not end where they were to.
func (w *world) observe(h *host, ev stet.Event) {
	if ev.Kind != stet.Unplaced && ev.Kind != stet.DoubleEffect {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if ev.Kind == stet.Unplaced {
		w.seen.unplaced++
		h.told[outcome{ev.ID, ev.Attempt, 0}] = true
		return
	}
	w.seen.doubled++
	h.told[outcome{ev.ID, 0, ev.Fence}] = true
}

// account checks in the end that nothing was forgotten that a process knew: each answer came into a
// record, or the record had its result by evidence before, or the process has said that no record
// takes it. Only a process that was killed takes what it knows with it.
func (w *world) account() { // K03, W5
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		said := r.host.told[outcome{r.id, int(r.fence - r.life.UnixMicro()), 0}] || r.host.told[outcome{r.id, 0, r.fence}]
		if r.answer != "" && !r.host.ended && !r.placed && !r.ruled && !said && !r.left {
			w.t.Errorf("K03: the answer of attempt %d was forgotten, handed out %v", r.fence-r.life.UnixMicro(), r.handed)
		}
	}
}

// working reports whether the store knows that the handler of r is at work.
func (w *world) working(r *run) bool {
	is := w.stored(r.id)
	return is != nil && is.Fence() == r.fence && (is.State == stet.Running && !is.Over() || is.Attended())
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

// granted returns the run that h's record belongs to. There is none where a request gave up before
// it was told that it had won.
func (w *world) granted(h *stet.Head) *run {
	for _, r := range w.runs {
		if r.id == h.ID && r.fence == h.Fence() {
			return r
		}
	}
	return nil
}

// effects returns the runs of a life whose effects the provider has, and whether it may get more;
// but for one run's, or nil.
func (w *world) effects(id stet.ID, life time.Time, but *run) (done []*run, open bool) {
	for _, r := range w.runs {
		if r == but || r.id != id || !r.life.Equal(life) {
			continue
		}
		if r.arrived {
			done = append(done, r)
		}
		open = open || r.mayArrive(w)
	}
	return done, open
}

// published reports whether bytes of an answer have left in a life.
func (w *world) published(id stet.ID, life time.Time) bool {
	return slices.ContainsFunc(w.runs, func(r *run) bool { return r.id == id && r.life.Equal(life) && r.published })
}

// mayArrive reports whether r may still have an effect that it has not had yet.
func (r *run) mayArrive(w *world) bool {
	switch {
	case r.arrived, r.voided, r.proven:
		return false
	case r.sent:
		last := r.lease
		if r.sentAt.After(last) {
			last = r.sentAt
		}
		return w.now().Before(last.Add(flight))
	case r.over, r.doubted && !r.overdue:
		return false
	case r.overdue:
		return w.working(r)
	}
	return w.now().Before(r.lease.Add(flight))
}
