package figures

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet"
)

// Config configures a [Board]. The zero value is ready to use.
type Config struct {
	// Version is the program's, for people.
	Version string
	// Draining reports that the process is about to end; nil means never.
	Draining func() bool
}

// Board counts what the requests of this process are told, and knows what the boards of other
// processes have published. It is safe for concurrent use.
type Board struct {
	cfg    Config
	reader bool                        // it is no process of its own
	engine atomic.Pointer[stet.Engine] // nil before Run

	// Counted on the path of requests, without a lock.
	routes  *routes
	shadows *routes // what requests would have been told outside shadow mode
	calls   calls

	asked, mismatches sightings

	mu     sync.Mutex // guards what follows
	clock  clock
	began  time.Time // local
	hour   ring
	day    ring
	recent recent
	mine   int    // the slot of this process's record; none before the first
	name   string // of this process, as records name it

	views views

	// Of Run alone.
	packer packer
	told   record // as the store has it: who takes that record over goes on with these figures
}

const none = -1

// NewReader returns a board that counts nothing, and only reads what others have published in the
// store of e.
func NewReader(e *stet.Engine) *Board {
	b := New(Config{})
	b.reader = true
	b.engine.Store(e)
	return b
}

// New returns a board on which nothing is counted yet.
func New(c Config) *Board {
	now := time.Now()
	c.Version = c.Version[:min(len(c.Version), maxName)]
	return &Board{cfg: c, routes: newRoutes(), shadows: newRoutes(),
		clock: clock{own: now.UTC(), local: now}, began: now, mine: none,
		hour: newRing(fineStep, fineSteps), day: newRing(dayStep, daySteps),
		recent: recent{next: now.Add(time.Minute), was: make([]callCounts, 1)}, // calls before its first look count
		asked:  sightings{limit: maxAsked}, mismatches: sightings{limit: maxMismatches}}
}

// Observe counts an event. It is fit for [stet.Config.Observe].
func (b *Board) Observe(e stet.Event) {
	switch e.Kind {
	case stet.Answer:
		b.answer(&e)
	case stet.StoreCall:
		b.calls.add(e.Took, e.Err != nil)
	case stet.Transition:
		if e.From == stet.Unknown && e.To != stet.Unknown {
			b.asked.forget(e.ID, b.tag)
		}
	case stet.LeaseLost, stet.PersistFailed, stet.Persisted, stet.Reaped, stet.Probed, stet.ProbeFailed, stet.Miswired,
		stet.DoubleEffect, stet.Unplaced, stet.Overfull, stet.Trimmed:
	}
}

func (b *Board) answer(e *stet.Event) {
	col, part, route := column(e.Result), part(), b.routes.row(e.Route)
	route.add(part, col)
	if e.Result == "bypass" && e.Cause != "" {
		b.shadows.row(e.Route).add(part, column(e.Cause))
	}
	if e.Unprotected {
		route.add(part, unprotected)
	}
	if e.Mismatch != nil {
		route.add(part, mismatched)
		b.mismatches.see(e.ID, e.Mismatch, strings.Clone(e.TraceID))
	}
	if e.Result == "unknown" && e.ID.Key != "" {
		b.asked.see(e.ID, nil, "")
	}
}

// collect moves what was counted since the last time into the steps of now, by the board's own
// time. The caller holds the lock.
func (b *Board) collect(now time.Time) {
	all := b.routes.collect(now)
	b.hour.add(now, all)
	b.day.add(now, all)
	b.shadows.collect(now)
	b.recent.keep(time.Now(), &b.calls)
}

// tag is the id under which a record is published.
func (b *Board) tag(id stet.ID) string {
	if e := b.engine.Load(); e != nil {
		return e.Tag(id)
	}
	return ""
}

// now is the board's own time. The caller holds the lock.
func (b *Board) now() time.Time { return b.clock.at(time.Now()) }

// Calls says how the store has answered this process: the duration of its calls, and how many of
// the last minute failed.
type Calls struct {
	P50, P99         time.Duration // of 5 min
	Answered, Failed int           // of the last minute
}

// Calls says how the store has answered lately, as far as the engine has told the board.
func (b *Board) Calls() Calls {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recent.keep(time.Now(), &b.calls)
	all, last := b.recent.since(callsFor, &b.calls), b.recent.since(1, &b.calls)
	c := Calls{P50: all.quantile(.5), P99: all.quantile(.99), Failed: int(last[buckets])}
	for _, n := range last[:buckets] {
		c.Answered += int(n)
	}
	return c
}
