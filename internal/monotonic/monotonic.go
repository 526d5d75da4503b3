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
	now := micros(c.Now)
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

// Pass has Micros return no instant up to this one from now on. A store passes the fence of a
// record that it deletes, so that the next life of the key has a greater one.
func (c *Clock) Pass(instant int64) {
	for {
		last := c.last.Load()
		if instant < last || c.last.CompareAndSwap(last, instant+1) {
			return
		}
	}
}

// Last is what Micros returned last, or 0.
func (c *Clock) Last() int64 { return c.last.Load() }
