package figures

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/stet-dev/stet"
)

// Bounds of what is counted by name.
const (
	maxRoutes   = 200
	maxScopes   = 100 // those with the most requests
	maxName     = 256 // bytes of a route's or a scope's name; the rest of a longer one is cut off
	newcomers   = 25  // scopes that take the place of others between two looks
	otherRoutes = "(more routes)"
)

// routes has a row for each route, and one for those beyond. Routes come from a configuration and
// not from clients.
type routes struct{ *table }

func newRoutes() routes {
	t := newTable()
	t.swap("", otherRoutes, newRow())
	return routes{t}
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
	if row := (*r.rows.Load())[name]; row != nil {
		return row
	}
	row := newRow()
	r.swap("", strings.Clone(name), row)
	return row
}

// scopes has a row for each of the busiest scopes. Clients make scopes, as many as they like: a
// scope that is not counted takes the place of the least busy one with a probability of one in that
// one's count, so that a scope with many requests gets in soon and a crowd of small ones changes
// little (Ben Basat et al., Randomized Admission Policy, 2017).
type scopes struct {
	*table
	least atomic.Uint64 // the count of the least busy scope when the board looked last

	leave []string // the least busy scopes, which leave first; guarded by the table's lock
	hour  int64    // the one in which rank was called last
}

func newScopes() scopes { return scopes{table: newTable()} }

// count counts a request of a scope, if that scope is counted.
func (s *scopes) count(scope stet.Scope, part uint32, col int) {
	if len(scope) > maxName {
		scope = scope[:maxName]
	}
	row := (*s.rows.Load())[string(scope)]
	if row == nil {
		if row = s.admit(string(scope)); row == nil {
			return
		}
	}
	row.add(part, col)
}

// admit returns a row for a scope that has none, or nil.
func (s *scopes) admit(name string) *row {
	full := len(*s.rows.Load()) >= maxScopes
	least := s.least.Load()
	if full && rand.Uint64N(least+1) > 0 {
		return nil
	}
	if !s.mu.TryLock() { // a request does not wait for another one's
		return nil
	}
	defer s.mu.Unlock()
	rows := *s.rows.Load()
	if row := rows[name]; row != nil {
		return row
	}
	var out string
	if len(rows) >= maxScopes {
		if len(s.leave) == 0 {
			return nil
		}
		out, s.leave = s.leave[0], s.leave[1:]
	}
	row, name := newRow(), strings.Clone(name)
	if out != "" {
		row.start = least
	}
	s.swap(out, name, row)
	return row
}

// rank orders the rows by how busy their scopes are, and plans which leave first. The caller holds
// the board's lock.
func (s *scopes) rank(hour int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	type ranked struct {
		name string
		n    uint64
	}
	var all []ranked
	for name, row := range *s.rows.Load() {
		if hour > s.hour {
			row.start /= 2
		}
		all = append(all, ranked{name, row.busy()})
	}
	s.hour = hour
	slices.SortFunc(all, func(a, b ranked) int { return cmp.Compare(a.n, b.n) })
	s.leave = nil
	for _, r := range all[:min(len(all), newcomers)] {
		s.leave = append(s.leave, r.name)
	}
	if len(all) > 0 {
		s.least.Store(all[0].n)
	}
}

// admitted returns the row of a scope that another process has counted, or nil if there is no room.
func (s *scopes) admitted(name string) *row {
	if row := (*s.rows.Load())[name]; row != nil {
		return row
	}
	if len(*s.rows.Load()) >= maxScopes {
		return nil
	}
	return s.admit(name)
}
