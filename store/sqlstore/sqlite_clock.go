package sqlstore

import (
	"sync/atomic"
	"time"
)

// clock is a store's time in whole microseconds since 1970. It never goes back, so that leases are compared with instants of
// one line even when an administrator sets the host's clock (I13, W10).
type clock struct {
	now  func() time.Time
	last atomic.Int64
}

func (c *clock) micros() int64 {
	now := c.now().UnixMicro()
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
