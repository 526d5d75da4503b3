package figures

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/stet-dev/stet"
)

// record is what a process publishes.
type record struct {
	Version    string    `json:"version"`
	Began      time.Time `json:"began"`
	State      string    `json:"state"`
	Hour       strip     `json:"hour"`
	Day        strip     `json:"day"`
	Routes     []named   `json:"routes,omitzero"` // those with the most requests first
	Shadows    []named   `json:"shadows,omitzero"`
	Asked      []seen    `json:"asked,omitzero"`  // the last first
	Forgot     time.Time `json:"forgot,omitzero"` // when a key that was asked about was last forgotten before its time
	Mismatches []seen    `json:"mismatches,omitzero"`
	Partial    bool      `json:"partial,omitzero"` // there was more than a record can hold
}

// named is the row of a route, by hours.
type named struct {
	Name string `json:"name"`
	strip
	busy uint64
}

// States of a process. Gone is what a reader finds, and no process says of itself.
const (
	ready    = "ready"
	draining = "draining"
	ended    = "ended"
	gone     = "gone"
)

// maxRecord is how large a record may be, in bytes. maxPlain is how large one may be before it is
// compressed, for a reader.
const (
	maxRecord = 64 << 10
	maxPlain  = 1 << 20
)

// own is the record of this process as of now.
func (b *Board) own(state string) record {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.collect(b.now())
	c := &b.clock
	r := record{Version: b.cfg.Version, Began: c.store(b.began).Round(time.Microsecond), State: state,
		Hour: b.hour.strip(c), Day: b.day.strip(c),
		Routes: rowsOf(b.routes, c), Shadows: rowsOf(b.shadows, c)}
	if b.engine.Load() != nil {
		r.Asked, r.Forgot = b.asked.all(b.tag, c.store)
		r.Mismatches, _ = b.mismatches.all(b.tag, c.store)
	}
	return r
}

// state is what the process says of itself before its end.
func (b *Board) state() string {
	if b.cfg.Draining != nil && b.cfg.Draining() {
		return draining
	}
	return ready
}

// rowsOf returns the rows that have counted something in a day, the busiest first.
func rowsOf(r *routes, c *clock) (all []named) {
	for name, row := range *r.rows.Load() {
		if s := row.hours.strip(c); s.N != nil {
			all = append(all, named{name[:min(len(name), maxName)], s, row.busy()})
		}
	}
	slices.SortFunc(all, func(a, b named) int { return cmp.Or(cmp.Compare(b.busy, a.busy), cmp.Compare(a.Name, b.Name)) })
	return all
}

// packer compresses records. Its memory is large, and is used again.
type packer struct {
	to bytes.Buffer
	w  *flate.Writer
}

// pack compresses a document. The result is good until the next call.
func (p *packer) pack(doc []byte) []byte {
	p.to.Reset()
	if p.w == nil {
		p.w, _ = flate.NewWriter(nil, flate.BestSpeed) // it knows this level
	}
	p.w.Reset(&p.to)
	_, _ = p.w.Write(doc) // to memory
	_ = p.w.Close()
	return p.to.Bytes()
}

// encode compresses a record. One that would be too large loses the ends of its lists, and says so.
func (r *record) encode(p *packer) ([]byte, error) {
	for {
		doc, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("figures: a record cannot be stored: %w", err)
		}
		packed := p.pack(doc)
		lists := len(r.Routes) + len(r.Shadows) + len(r.Asked) + len(r.Mismatches)
		if len(packed) <= maxRecord && len(doc) <= maxPlain || lists == 0 {
			return packed, nil
		}
		r.Partial = true
		r.Routes, r.Shadows = half(r.Routes), half(r.Shadows)
		r.Asked, r.Mismatches = half(r.Asked), half(r.Mismatches)
	}
}

func half[T any](list []T) []T { return list[:len(list)/2] }

// decode reads a record. It takes no more from one than a board publishes.
func decode(packed []byte) (r record, err error) {
	doc, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxPlain+1))
	if err == nil {
		err = json.Unmarshal(doc[:min(len(doc), maxPlain)], &r) // of a longer one it is no JSON
	}
	if err != nil {
		return record{}, fmt.Errorf("%w: it has no figures of this version, or over %d bytes", stet.ErrCorrupt, maxPlain)
	}
	r.Version = r.Version[:min(len(r.Version), maxName)]
	if r.State != draining && r.State != ended {
		r.State = ready
	}
	r.Hour.bounded(fineSteps)
	r.Day.bounded(daySteps)
	r.Routes, r.Shadows = first(r.Routes, maxRoutes+1), first(r.Shadows, maxRoutes+1)
	for _, rows := range [][]named{r.Routes, r.Shadows} {
		for i := range rows {
			rows[i].Name = rows[i].Name[:min(len(rows[i].Name), maxName)]
			rows[i].bounded(hourSteps)
		}
	}
	r.Asked, r.Mismatches = first(r.Asked, maxAsked), first(r.Mismatches, maxMismatches)
	for _, keys := range [][]seen{r.Asked, r.Mismatches} {
		for i := range keys {
			keys[i] = keys[i].bounded()
		}
	}
	return r, nil
}

func first[T any](list []T, n int) []T { return list[:min(len(list), n)] }

// take goes on with the figures of a process whose record this one has taken over.
func (b *Board) take(r *record) {
	b.told = *r
	b.move(r, (*ring).load)
	b.asked.take(r.Asked, r.Forgot)
	b.mismatches.take(r.Mismatches, time.Time{})
}

// yield leaves what was published to the process that has taken the record over: it goes on with
// that, and nothing is counted twice.
func (b *Board) yield() {
	b.published(none, "")
	b.move(&b.told, (*ring).unload)
	b.asked.clear()
	b.mismatches.clear()
}

// move adds the figures of a record to the board's, or takes them away.
func (b *Board) move(r *record, do func(*ring, *strip, int64)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, hours := b.now(), b.clock.label(hourStep)
	b.collect(now)
	do(&b.hour, &r.Hour, b.clock.label(fineStep))
	do(&b.day, &r.Day, b.clock.label(dayStep))
	rows := func(all []named, find func(name string) *row) {
		for i := range all {
			row := find(all[i].Name)
			row.collect(now) // its first step has to be known
			do(&row.hours, &all[i].strip, hours)
		}
	}
	rows(r.Routes, b.routes.row)
	rows(r.Shadows, b.shadows.row)
}
