package monotonic

import (
	"sync/atomic"
	"time"
)

// Shared is the clock of a store that several processes have open, which share the clock of their
// host: it is that one, and stands still at a horizon that they share if it is set back behind it.
// It remembers nothing else of what it gave out, because an instant that the others do not know of
// ends their leases early once the host's clock was set back (S05). It is safe for concurrent use.
type Shared struct {
	Now     func() time.Time // nil means [time.Now]
	horizon atomic.Int64
}

// Micros is the time in whole microseconds since 1970.
func (c *Shared) Micros() int64 { return max(micros(c.Now), c.horizon.Load()) }

// Host is the time of the host's clock alone.
func (c *Shared) Host() int64 { return micros(c.Now) }

// Horizon is the horizon that was set last.
func (c *Shared) Horizon() int64 { return c.horizon.Load() }

// Know sets the horizon to what the store has for it.
func (c *Shared) Know(horizon int64) { c.horizon.Store(horizon) }

func micros(read func() time.Time) int64 {
	if read == nil {
		read = time.Now
	}
	return read().UnixMicro()
}
