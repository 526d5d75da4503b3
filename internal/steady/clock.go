// Package steady is a clock that never goes back.
package steady

import (
	"sync/atomic"
	"time"
)

// Clock is a store's time in whole microseconds since 1970. It never goes back, also when an
// administrator sets the host's clock, so that leases are compared with instants of one line (I13,
// W10). It is safe for concurrent use.
type Clock struct {
	Now  func() time.Time // nil means time.Now
	last atomic.Int64
}

// Micros returns the time.
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

// Last returns the latest instant that was given out, and 0 before the first.
func (c *Clock) Last() int64 { return c.last.Load() }
