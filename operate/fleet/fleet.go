// Package fleet says which processes share a store and what each of them has told clients, for the
// pages and documents of operators.
//
// A [Board] observes the events of an engine and counts in memory. [Board.Run] writes what it has
// counted into one record of [stet.OwnScope] every 10 s, which is the heartbeat of its process:
//
//	board := fleet.New(fleet.Config{Version: "v1.2.3"})
//	engine, err := stet.New(store, stet.Config{Observe: board.Observe})
//	...
//	go board.Run(ctx, engine)
//	handler := admin.New(engine, admin.Config{Config: operate.Config{Figures: board.Figures, Asking: board.Asking}})
//
// All counts are totals since their process began, as those of Prometheus are, and end with it: a
// metrics system draws them over time. Observing an event never calls the store.
//
// # Records
//
// A process takes the first of 64 records whose lease is over, or that is not there, and keeps it
// until it ends. A process that finds none counts for itself, knows the others, and says that they
// do not know of it. One that does not write for 25 s is gone. The record of a process that has
// ended, or is gone, is told for a day, or until another process takes it.
//
// A record holds 64 KiB at most; one from which something was left out says so. Its instants are
// those of its process: a reader moves them by how far the store's stamp of the write is from the
// process's own, so that a clock that is wrong moves nothing.
//
// Who asks about which key is remembered for 100 keys. Beyond them the one that was quiet for
// longest is forgotten, and every count since then is a lower bound, which says so.
package fleet

import (
	"context"
	"slices"
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
	// Measures return figures of the store as a whole, such as how many records it has. One process
	// of all calls them, each about every 10 s, and at most for a twentieth of the time, so that one
	// that takes long delays no other. Without any, the process leaves it to others.
	Measures []Measure
	// Measured is told what all of them returned last, in this process or in another one, each time
	// that may have changed; nil says that it is not known. It may be nil.
	Measured func(map[string]float64)
}

// Measure returns figures of the store of e by their names, without those that it does not answer.
type Measure func(ctx context.Context, e *stet.Engine) map[string]float64

// words are the results, and two more: for a request in shadow mode of which it is not known what
// would have been answered, and for words that are not among these.
var words = [...]string{"new", "retry", "replay", "conflict", "in_progress", "unknown", "missing_key", "invalid_key",
	"unauthenticated", "store_error", "limited", "too_large", "bypass", "unseen", "other"}

// Results are the words that an answer counts as. Each request has exactly one.
var Results = words[:len(words)-2]

// Bounds of what is counted and remembered.
const (
	maxRoutes     = 200  // routes that are counted by name
	maxName       = 256  // bytes of a route's name; the rest of a longer one is cut off
	maxAsked      = 100  // unknown keys that clients ask about
	maxMismatches = 50   // keys that were used for another request
	maxID         = 4096 // bytes of a scope and a key together; longer ones are not remembered
	maxParts      = 16   // parts of a mismatch that are named
	maxPart       = 64   // bytes of the name of a part, and of a trace's id
	otherRoutes   = "(more routes)"
)

// Board counts what the requests of this process are told, and knows what the boards of other
// processes have published. It is safe for concurrent use.
type Board struct {
	conf   Config
	reader bool                        // it is no process of its own
	engine atomic.Pointer[stet.Engine] // nil before Run
	began  time.Time

	mu     sync.Mutex // guards the map alone: counting takes no lock
	routes atomic.Pointer[map[string]*counts]

	asked, mismatches sightings
	place             place
	views             views
}

// counts are what the requests of a route were told.
type counts struct {
	told, shadow            tally
	unprotected, mismatches atomic.Uint64
}

// tally counts by the order of words.
type tally [len(words)]atomic.Uint64

// New returns a board on which nothing is counted yet.
func New(c Config) *Board {
	b := &Board{conf: c, began: time.Now(), asked: sightings{limit: maxAsked}, mismatches: sightings{limit: maxMismatches}}
	b.routes.Store(&map[string]*counts{otherRoutes: {}})
	return b
}

// NewReader returns a board that counts nothing, and only reads what others have published in the
// store of e.
func NewReader(e *stet.Engine) *Board {
	b := New(Config{})
	b.reader = true
	b.engine.Store(e)
	return b
}

// Observe counts an event. It is fit for [stet.Config.Observe].
func (b *Board) Observe(e stet.Event) {
	switch {
	case e.Kind == stet.Transition && e.From == stet.Unknown && e.To != stet.Unknown:
		b.asked.forget(e.ID)
	case e.Kind == stet.Answer:
		b.countAnswer(&e)
	}
}

func (b *Board) countAnswer(e *stet.Event) {
	route := b.route(e.Route)
	route.told[wordIndex(e.Result)].Add(1)
	if e.Result == "bypass" && e.Cause != "" {
		route.shadow[wordIndex(e.Cause)].Add(1)
	}
	if e.Unprotected {
		route.unprotected.Add(1)
	}
	if e.Mismatch != nil {
		route.mismatches.Add(1)
		b.mismatches.see(e.ID, e.Mismatch, e.TraceID)
	}
	if e.Result == "unknown" && e.ID.Key != "" {
		b.asked.see(e.ID, nil, "")
	}
}

func wordIndex(word string) int {
	if i := slices.Index(words[:], word); i >= 0 {
		return i
	}
	return len(words) - 1
}

// route returns the counts of a route. Routes come from a configuration and not from clients.
func (b *Board) route(name string) *counts {
	all := *b.routes.Load()
	if c := all[name]; c != nil {
		return c
	}
	if len(all) > maxRoutes {
		return all[otherRoutes]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	more := map[string]*counts{strings.Clone(name): {}}
	for known, c := range *b.routes.Load() {
		more[known] = c
	}
	b.routes.Store(&more)
	return more[name]
}

// sightings remembers the keys that were seen last, a bounded number of them.
type sightings struct {
	limit int
	mu    sync.Mutex
	of    map[stet.ID]*sighting
	lost  time.Time // when one was last forgotten before its time
}

// sighting is what a board remembers of a key.
type sighting struct {
	ID    string    `json:"id"` // see [stet.Engine.Tag]
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
	Parts []string  `json:"parts,omitzero"`
	Trace string    `json:"trace,omitzero"`
}

// see counts a key. If there is no room, the one is forgotten that was not seen for the longest
// time.
func (s *sightings) see(id stet.ID, parts []string, trace string) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.of[id]
	switch {
	case k != nil:
	case len(id.Scope)+len(id.Key) > maxID:
		s.lost = now
		return
	default:
		if s.of == nil {
			s.of = map[stet.ID]*sighting{}
		}
		if len(s.of) >= s.limit {
			s.forgetOldest(now)
		}
		k = &sighting{}
		s.of[stet.ID{Scope: stet.Scope(strings.Clone(string(id.Scope))), Key: stet.Key(strings.Clone(string(id.Key)))}] = k
	}
	k.Count++
	k.Last, k.Parts, k.Trace = now, nil, strings.Clone(trace[:min(len(trace), maxPart)])
	for _, part := range parts[:min(len(parts), maxParts)] {
		k.Parts = append(k.Parts, strings.Clone(part[:min(len(part), maxPart)]))
	}
}

// forgetOldest makes room. The caller holds the lock.
func (s *sightings) forgetOldest(now time.Time) {
	var oldest stet.ID
	for id, k := range s.of {
		if first := s.of[oldest]; first == nil || k.Last.Before(first.Last) {
			oldest = id
		}
	}
	delete(s.of, oldest)
	s.lost = now
}

// lose notes that something was forgotten before its time.
func (s *sightings) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = time.Now()
}

// forget is called when a key is no longer of interest.
func (s *sightings) forget(id stet.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, id)
}

// list returns what is remembered, the last first, and when something was last forgotten before its
// time.
func (s *sightings) list(tag func(stet.ID) string) (all []sighting, lost time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, k := range s.of {
		one := *k
		one.ID = tag(id)
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b sighting) int { return b.Last.Compare(a.Last) })
	return all, s.lost
}
