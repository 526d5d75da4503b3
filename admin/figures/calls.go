package figures

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// buckets are the classes of a call's duration. The first is for calls of less than 16 µs; each
// one after it is half as long again on average, and the last is for more than 4 s.
const buckets = 38

// calls counts calls of the store by their duration, from many goroutines.
type calls [4][buckets + 1]atomic.Uint64 // the last place counts failures

func (c *calls) add(took time.Duration, failed bool) {
	i := bucket(took)
	if failed {
		i = buckets
	}
	c[rand.Uint32()%uint32(len(c))][i].Add(1)
}

// bucket is the class of a duration: two for each power of two of its microseconds.
func bucket(took time.Duration) int {
	us := uint64(max(took, 0) / time.Microsecond)
	if us < 16 {
		return 0
	}
	power := bits.Len64(us) - 1
	return min(1+2*(power-4)+int(us>>(power-1)&1), buckets-1)
}

// middle is a duration that stands for a class.
func middle(i int) time.Duration {
	if i == 0 {
		return 8 * time.Microsecond
	}
	power, half := 4+(i-1)/2, (i-1)%2
	return time.Duration(math.Exp2(float64(power))*(1.25+.5*float64(half))) * time.Microsecond
}

type callCounts [buckets + 1]uint64

func (c *calls) sum() (n callCounts) {
	for i := range c {
		for j := range n {
			n[j] += c[i][j].Load()
		}
	}
	return n
}

// quantile is the duration that a share of the answered calls did not exceed; 0 without any.
func (n *callCounts) quantile(share float64) time.Duration {
	var all, below uint64
	for _, c := range n[:buckets] {
		all += c
	}
	for i, c := range n[:buckets] {
		if below += c; below > 0 && float64(below) >= share*float64(all) {
			return middle(i)
		}
	}
	return 0
}

// callsFor is the time that health is about, in minutes.
const callsFor = 5

// recent has the counts as they were at the last full minutes.
type recent struct {
	next time.Time
	was  []callCounts // oldest first: at the beginning there were none
}

// keep notes the counts, once a minute.
func (r *recent) keep(now time.Time, c *calls) {
	if now.Before(r.next) {
		return
	}
	r.next = now.Add(time.Minute)
	if r.was = append(r.was, c.sum()); len(r.was) > callsFor+1 {
		r.was = r.was[1:]
	}
}

// since is what was counted in the last minutes, as many as asked for if they are kept.
func (r *recent) since(minutes int, c *calls) callCounts {
	n := c.sum()
	for i, old := range r.was[max(0, len(r.was)-minutes)] {
		n[i] -= old
	}
	return n
}
