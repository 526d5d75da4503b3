package fleet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/operate"
)

// record is what a process publishes. Its instants are by the clock of the process.
type record struct {
	At         time.Time          `json:"at"` // when it was made
	Began      time.Time          `json:"began"`
	Version    string             `json:"version,omitzero"`
	State      string             `json:"state"`
	PerSecond  float64            `json:"per_second,omitzero"`
	Routes     []routeTotals      `json:"routes,omitzero"` // those with the most requests first
	Asked      []sighting         `json:"asked,omitzero"`  // the last first
	Forgot     time.Time          `json:"forgot,omitzero"` // when a key that was asked about was last forgotten before its time
	Mismatches []sighting         `json:"mismatches,omitzero"`
	Measured   map[string]float64 `json:"measured,omitzero"` // nil: another process measures, or nothing is known
	Partial    bool               `json:"partial,omitzero"`  // there was more than a record can hold
}

// routeTotals are the counts of a route as a record has them.
type routeTotals struct {
	Name        string          `json:"name"`
	Told        operate.Results `json:"told"`
	Shadow      operate.Results `json:"shadow,omitzero"`
	Unprotected int             `json:"unprotected,omitzero"`
	Mismatches  int             `json:"mismatches,omitzero"`
}

// States of a process. Gone is what a reader finds, and no process says of itself.
const (
	ready    = "ready"
	draining = "draining"
	ended    = "ended"
	gone     = "gone"
)

// maxRecord is how large a record may be, in bytes.
const maxRecord = 64 << 10

// record makes the record of this process as of now. The caller adds what was measured, and how many
// requests there were in a second.
func (b *Board) record(state string) record {
	r := record{At: time.Now(), Began: b.began, Version: b.conf.Version[:min(len(b.conf.Version), maxName)], State: state}
	for name, c := range *b.routes.Load() {
		one := routeTotals{name[:min(len(name), maxName)], results(&c.told), results(&c.shadow),
			int(c.unprotected.Load()), int(c.mismatches.Load())}
		if len(one.Told) > 0 {
			r.Routes = append(r.Routes, one)
		}
	}
	slices.SortFunc(r.Routes, func(a, b routeTotals) int {
		return cmp.Or(cmp.Compare(b.Told.Requests(), a.Told.Requests()), cmp.Compare(a.Name, b.Name))
	})
	if e := b.engine.Load(); e != nil {
		r.Asked, r.Forgot = b.asked.list(e.Tag)
		r.Mismatches, _ = b.mismatches.list(e.Tag)
	}
	return r
}

// results are the counts that are not 0, by their words; nil if there are none.
func results(c *tally) (all operate.Results) {
	for i := range c {
		if n := c[i].Load(); n > 0 {
			if all == nil {
				all = operate.Results{}
			}
			all[words[i]] = int(n)
		}
	}
	return all
}

// requests is how many requests were answered.
func (r *record) requests() (n int) {
	for i := range r.Routes {
		n += r.Routes[i].Told.Requests()
	}
	return n
}

// state is what the process says of itself before its end.
func (b *Board) state() string {
	if b.conf.Draining != nil && b.conf.Draining() {
		return draining
	}
	return ready
}

// encode writes a record. One that would be too large loses the ends of its lists, and says so.
func (r record) encode() ([]byte, error) {
	for {
		doc, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("fleet: a record cannot be stored: %w", err)
		}
		if len(doc) <= maxRecord || len(r.Routes)+len(r.Asked)+len(r.Mismatches) == 0 {
			return doc, nil
		}
		r.Partial = true
		r.Routes, r.Asked, r.Mismatches = half(r.Routes), half(r.Asked), half(r.Mismatches)
	}
}

func half[T any](list []T) []T { return list[:len(list)/2] }

// decode reads a record. It is [stet.ErrCorrupt] where it is larger than a board publishes, or none
// of this version.
func decode(doc []byte) (r record, err error) {
	err = stet.ErrCorrupt
	if len(doc) <= maxRecord {
		err = json.Unmarshal(doc, &r)
	}
	if err != nil {
		return record{}, fmt.Errorf("%w: it is no record of a process of this version, or over %d bytes", stet.ErrCorrupt, maxRecord)
	}
	if r.State != draining && r.State != ended {
		r.State = ready
	}
	return r, nil
}

// move moves all instants of a record by d, to the millisecond.
func (r *record) move(d time.Duration) {
	at := []*time.Time{&r.At, &r.Began, &r.Forgot}
	for _, list := range [][]sighting{r.Asked, r.Mismatches} {
		for i := range list {
			at = append(at, &list[i].Last)
		}
	}
	for _, t := range at {
		if !t.IsZero() {
			*t = t.Add(d).UTC().Round(time.Millisecond)
		}
	}
}

// add adds the counts of a route of another process.
func (r *routeTotals) add(other *routeTotals) {
	r.Told, r.Shadow = sum(r.Told, other.Told), sum(r.Shadow, other.Shadow)
	r.Unprotected += other.Unprotected
	r.Mismatches += other.Mismatches
}

func sum(a, b operate.Results) operate.Results {
	if len(a) == 0 {
		return maps.Clone(b)
	}
	for word, n := range b {
		a[word] += n
	}
	return a
}
