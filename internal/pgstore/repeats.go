package pgstore

import (
	"sync/atomic"
)

// repeats tells a storm of retries from ordinary traffic. A Create carries a whole record, and mostly is the first of its key; while most
// find their key taken, a look-up in front of it answers them for half the price, and costs the others a round trip.
type repeats struct{ score atomic.Int32 }

// Of three keys more than two have to be repeats to get the score up, and a few new ones bring it down.
const (
	scoreFound = 1
	scoreMade  = -2
	likelyFrom = 8
	maxScore   = 16
)

func (r *repeats) likely() bool { return r.score.Load() >= likelyFrom }

// saw may lose an update to another: it is an estimate.
func (r *repeats) saw(found bool) {
	by := int32(scoreMade)
	if found {
		by = scoreFound
	}
	was := r.score.Load()
	if is := min(max(was+by, 0), maxScore); is != was {
		r.score.Store(is)
	}
}
