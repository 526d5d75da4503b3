package rest

import (
	"math/rand/v2"
	"time"
)

// Spread varies a pause by a tenth either way, so that processes that were started together do not stay in step.
func Spread(d time.Duration) time.Duration {
	if d < 10 {
		return d
	}
	return d - d/10 + rand.N(d/5)
}
