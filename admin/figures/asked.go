package figures

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stet-dev/stet"
)

// Bounds of what is remembered of single keys.
const (
	maxID         = 4096 // bytes of a scope and a key together; longer ones are not remembered
	maxAsked      = 250  // unknown keys that clients ask about
	maxMismatches = 100  // keys that were used for another request
	maxParts      = 16   // of a mismatch that are named
	maxPart       = 64   // bytes of a part's name
	maxTrace      = 64   // bytes of a trace id
	maxTag        = 64   // bytes of a record's id
	askedFor      = 24 * time.Hour
)

// sighting is what a board remembers of a key.
type sighting struct {
	count int
	last  time.Time // local
	parts []string
	trace string
}

// sightings remembers the keys that were seen last, a bounded number of them.
type sightings struct {
	limit  int
	mu     sync.Mutex
	of     map[stet.ID]*sighting
	before map[string]seen // what the process has remembered whose record this one took over
	forgot time.Time       // the store's, when one was last forgotten before its time
	lost   time.Time       // local, likewise
}

// see counts a key. If there is no room, those are forgotten that were not seen for the longest
// time: many at once, so that a crowd of keys costs each of them little.
func (s *sightings) see(id stet.ID, parts []string, trace string) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(id.Scope)+len(id.Key) > maxID {
		s.lost = now
		return
	}
	k := s.of[id]
	if k == nil {
		if len(s.of) >= s.limit {
			s.evict(now)
		}
		k = &sighting{}
		if s.of == nil {
			s.of = map[stet.ID]*sighting{}
		}
		s.of[stet.ID{Scope: stet.Scope(strings.Clone(string(id.Scope))), Key: stet.Key(strings.Clone(string(id.Key)))}] = k
	}
	k.count++
	k.last, k.parts, k.trace = now, parts, trace
}

// evict forgets a fifth. The caller holds the lock.
func (s *sightings) evict(now time.Time) {
	all := slices.SortedFunc(maps.Keys(s.of), func(a, b stet.ID) int { return s.of[a].last.Compare(s.of[b].last) })
	for _, old := range all[:len(all)/5] {
		delete(s.of, old)
	}
	s.lost = now
}

// forget is called when a key is no longer of interest.
func (s *sightings) forget(id stet.ID, tag func(stet.ID) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.of, id); len(s.before) > 0 {
		delete(s.before, tag(id))
	}
}

// take goes on with what another process has remembered.
func (s *sightings) take(all []seen, forgot time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgot, s.before = forgot, map[string]seen{}
	for _, k := range all {
		s.before[k.ID] = k
	}
}

// clear forgets all, because another process goes on with what was published of it.
func (s *sightings) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of, s.before, s.forgot, s.lost = nil, nil, time.Time{}, time.Now()
}

// seen is a sighting as a record has it.
type seen struct {
	ID    string    `json:"id"` // see [stet.Engine.Tag]
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
	Parts []string  `json:"parts,omitzero"`
	Trace string    `json:"trace,omitzero"`
}

// all returns what is remembered, the last first, and when something was last forgotten before its
// time. at turns a local instant into one of the store.
func (s *sightings) all(tag func(stet.ID) string, at func(time.Time) time.Time) (all []seen, forgot time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	known := maps.Clone(s.before)
	for id, k := range s.of {
		if now.Sub(k.last) > askedFor {
			delete(s.of, id)
			continue
		}
		one := seen{tag(id), k.count, at(k.last), k.parts, k.trace}
		one.Count += known[one.ID].Count
		delete(known, one.ID)
		all = append(all, one.bounded())
	}
	for id, k := range known {
		if at(now).Sub(k.Last) > askedFor {
			delete(s.before, id)
			continue
		}
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b seen) int { return b.Last.Compare(a.Last) })
	for len(all) > s.limit {
		delete(s.before, all[len(all)-1].ID)
		all, s.lost = all[:len(all)-1], now
	}
	if forgot = s.forgot; !s.lost.IsZero() {
		forgot = at(s.lost)
	}
	return all, forgot
}

// bounded cuts off what a request can make long.
func (s seen) bounded() seen {
	s.Parts = slices.Clone(s.Parts[:min(len(s.Parts), maxParts)])
	for i, p := range s.Parts {
		s.Parts[i] = p[:min(len(p), maxPart)]
	}
	s.ID, s.Trace = s.ID[:min(len(s.ID), maxTag)], s.Trace[:min(len(s.Trace), maxTrace)]
	return s
}
