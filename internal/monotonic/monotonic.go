// Package monotonic has a clock that never goes back, so that a store compares its leases with the
// instants of one line even if an administrator sets the host's clock (I13, W10).
package monotonic

import (
	"sync/atomic"
	"time"
)

// Clock gives out instants of Now. If Now goes back, the clock stands still. It is safe for
// concurrent use.
type Clock struct {
	Now  func() time.Time // nil means [time.Now]
	last atomic.Int64
}

// Micros is the time in whole microseconds since 1970.
func (c *Clock) Micros() int64 {
	read := c.Now
	if read == nil {
		read = time.Now
	}
	now := read().UnixMicro()
	for {
		last := c.last.Load()
		if now <= last {
			return last
		}
		if c.last.CompareAndSwap(last, now) {
			return now
		}
	}
}

// Last is what Micros returned last, or 0.
func (c *Clock) Last() int64 { return c.last.Load() }
