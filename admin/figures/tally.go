package figures

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stet-dev/stet/operate"
)

// Results are the words that an answer counts as. Each request has exactly one.
var Results = []string{"new", "retry", "replay", "conflict", "in_progress", "unknown", "missing_key", "invalid_key",
	"unauthenticated", "store_error", "limited", "too_large", "bypass"}

// What is counted beside the results.
const (
	unprotected = iota + 13 // requests that change state and ran without protection
	mismatched              // keys that were used for another request
	unseen                  // of shadow mode: it is not known what would have been answered
	other                   // results of a face that has more words than these
	columns
)

// column returns the place of a result in a tally.
func column(result string) int {
	if i := slices.Index(columnNames, result); i >= 0 {
		return i
	}
	return other
}

// columnNames are how records name the columns.
var columnNames = append(slices.Clone(Results), "+unprotected", "+mismatch", "unseen", "other")

// tally is a count for each column.
type tally [columns]uint64

func (t *tally) add(d *tally) {
	for i := range t {
		t[i] += d[i]
	}
}

// minus returns what was added since t was old.
func (t *tally) minus(old *tally) (d tally) {
	for i := range t {
		d[i] = t[i] - old[i]
	}
	return d
}

// requests is how many requests were answered.
func (t *tally) requests() (n uint64) {
	for i, c := range t {
		if i != unprotected && i != mismatched {
			n += c
		}
	}
	return n
}

// results are the columns that have a word, without zeros.
func (t *tally) results() operate.Results {
	m := operate.Results{}
	for i, c := range t {
		if c > 0 && i != unprotected && i != mismatched {
			m[columnNames[i]] = int(c)
		}
	}
	return m
}

// shards is into how many parts a counter is divided, so that processors seldom write to the same
// line of memory.
const shards = 8

// counter counts requests from many goroutines.
type counter [shards][columns]atomic.Uint64

// part is one of the parts, at random.
func part() uint32 { return rand.Uint32() % shards }

// add counts one in a column of a part.
func (c *counter) add(part uint32, col int) { c[part][col].Add(1) }

func (c *counter) sum() (t tally) {
	for i := range c {
		for j := range t {
			t[j] += c[i][j].Load()
		}
	}
	return t
}

// row is the figures of a route.
type row struct {
	counter
	// What follows is guarded by the board's lock.
	seen  tally // what is in hours
	hours ring
}

func newRow() *row { return &row{hours: newRing(hourStep, hourSteps)} }

// busy is how many requests a row has had in a day.
func (r *row) busy() uint64 {
	sum := r.hours.sum()
	return sum.requests()
}

// collect moves what was counted since the last time into the hours, and returns it.
func (r *row) collect(now time.Time) *tally {
	sum := r.sum()
	fresh := sum.minus(&r.seen)
	r.seen = sum
	r.hours.add(now, &fresh)
	return &fresh
}
