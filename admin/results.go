package admin

import (
	"slices"
	"time"
)

// Results counts requests by what they were told, in the words of idem_requests_total.
type Results map[string]int

// Requests is how many there were.
func (r Results) Requests() (n int) {
	for _, count := range r {
		n += count
	}
	return n
}

// Duplicates is how many requests did not run because another one with their key had run, was
// running, or may have had its effect.
func (r Results) Duplicates() int { return r["replay"] + r["in_progress"] + r["unknown"] }

// Sum counts the requests of all series since an instant, by whole steps.
func Sum(all []Series, since time.Time) Results {
	r := Results{}
	for i := range all {
		if n := all[i].since(since); n > 0 {
			r[all[i].Result] += n
		}
	}
	return r
}

func (s *Series) since(since time.Time) int {
	n, end := 0.0, s.Until
	for _, rate := range slices.Backward(s.PerSecond) {
		if !end.After(since) {
			break
		}
		n, end = n+rate*s.Step, end.Add(-time.Duration(s.Step*float64(time.Second)))
	}
	return int(n + .5)
}
