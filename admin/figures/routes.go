package figures

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of what is counted by name.
const (
	maxRoutes   = 200
	maxName     = 256 // bytes of a route's name; the rest of a longer one is cut off
	otherRoutes = "(more routes)"
)

// routes has a row for each route, and one for those beyond. Routes come from a configuration and
// not from clients. Readers take no lock.
type routes struct {
	rows atomic.Pointer[map[string]*row]
	mu   sync.Mutex // held to change which rows there are
}

func newRoutes() *routes {
	r := &routes{}
	r.rows.Store(&map[string]*row{otherRoutes: newRow()})
	return r
}

func (r *routes) row(name string) *row {
	rows := *r.rows.Load()
	if row := rows[name]; row != nil {
		return row
	}
	if len(rows) > maxRoutes {
		return rows[otherRoutes]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	more := maps.Clone(*r.rows.Load())
	if row := more[name]; row != nil {
		return row
	}
	row := newRow()
	more[strings.Clone(name)] = row
	r.rows.Store(&more)
	return row
}

// collect collects every row, and returns what all of them together have counted.
func (r *routes) collect(now time.Time) *tally {
	var all tally
	for _, row := range *r.rows.Load() {
		all.add(row.collect(now))
	}
	return &all
}
