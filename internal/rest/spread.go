package rest

import (
	"math/rand/v2"
	"time"
)

// Doubled is the pause after n tries: the first pause, doubled by each try up to the longest.
func Doubled(first, longest time.Duration, n int) time.Duration {
	d := min(first, longest)
	for i := 0; i < n && d < longest; i++ {
		d = min(2*d, longest)
	}
	return d
}

// Spread varies a pause by a tenth either way, so that processes that were started together do not
// stay in step.
func Spread(d time.Duration) time.Duration {
	if d < 10 {
		return d
	}
	return d - d/10 + rand.N(d/5)
}
