package figures

import "time"

// The steps that are kept: an hour of all requests, a day of all requests, and a day of each row.
const (
	fineStep, fineSteps = 15 * time.Second, 240
	dayStep, daySteps   = 15 * time.Minute, 96
	hourStep, hourSteps = time.Hour, 24
)

// ring counts in equal steps of time, the latest of which it keeps. Steps are numbered from 1970
// on, so that those of all processes have the same borders.
type ring struct {
	step  time.Duration
	last  int64 // the number of the newest step
	head  int   // where that is in cells
	cells []tally
}

func newRing(step time.Duration, n int) ring { return ring{step: step, cells: make([]tally, n)} }

// number is the step that an instant is in.
func (r *ring) number(t time.Time) int64 { return t.UnixNano() / int64(r.step) }

// end is the instant at which step n is over.
func (r *ring) end(n int64) time.Time { return time.Unix(0, (n+1)*int64(r.step)).UTC() }

// forward makes n the newest step, unless a later one is.
func (r *ring) forward(n int64) {
	if n-r.last >= int64(len(r.cells)) {
		clear(r.cells)
		r.last = n
	}
	for ; r.last < n; r.last++ {
		r.head = (r.head + 1) % len(r.cells)
		r.cells[r.head] = tally{}
	}
}

// at returns step n, or nil if that is not kept.
func (r *ring) at(n int64) *tally {
	back := r.last - n
	if back < 0 || back >= int64(len(r.cells)) {
		return nil
	}
	return &r.cells[(r.head-int(back)+len(r.cells))%len(r.cells)]
}

// add counts in the step of an instant, or in the newest step if that is later.
func (r *ring) add(t time.Time, d *tally) {
	r.forward(r.number(t))
	r.cells[r.head].add(d)
}

// sum is what was counted in the steps that are kept.
func (r *ring) sum() (t tally) {
	for i := range r.cells {
		t.add(&r.cells[i])
	}
	return t
}

// strip is a ring as a record has it.
type strip struct {
	Last int64               `json:"last"`
	N    map[string][]uint64 `json:"n,omitzero"` // by the column's name, up to the step Last; zeros before are left out
}

// strip numbers the steps in the time of c's store.
func (r *ring) strip(c *clock) strip {
	s := strip{Last: r.last + c.label(r.step)}
	n := int64(len(r.cells))
	for col, name := range columnNames {
		var counts []uint64
		for i := r.last - n + 1; i <= r.last; i++ {
			if n := r.at(i)[col]; n > 0 || counts != nil {
				counts = append(counts, n)
			}
		}
		if counts != nil {
			if s.N == nil {
				s.N = map[string][]uint64{}
			}
			s.N[name] = counts
		}
	}
	return s
}

// bounded keeps what a ring of n steps may have counted.
func (s *strip) bounded(n int) {
	known := map[string][]uint64{}
	for _, name := range columnNames {
		if counts := s.N[name]; len(counts) > 0 {
			known[name] = counts[max(0, len(counts)-n):]
		}
	}
	s.N = known
}

// each visits the steps in which something was counted.
func (s *strip) each(visit func(step int64, col int, n uint64)) {
	for col, name := range columnNames {
		counts := s.N[name]
		for i, n := range counts {
			visit(s.Last-int64(len(counts)-1-i), col, n)
		}
	}
}

// since is what was counted from a step on.
func (s *strip) since(first int64) (sum tally) {
	s.each(func(step int64, col int, n uint64) {
		if step >= first {
			sum[col] += n
		}
	})
	return sum
}

// load adds what another ring of the same step has counted, as far as r reaches back. off is by how
// much that one's numbers are larger.
func (r *ring) load(s *strip, off int64) {
	s.each(func(step int64, col int, n uint64) {
		if t := r.at(step - off); t != nil {
			t[col] += n
		}
	})
}

// unload takes away what load has added.
func (r *ring) unload(s *strip, off int64) {
	s.each(func(step int64, col int, n uint64) {
		if t := r.at(step - off); t != nil {
			t[col] -= min(n, t[col])
		}
	})
}
