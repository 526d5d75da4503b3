package sqlstore

import "github.com/stet-dev/stet/internal/monotonic"

// clock is the time of a store in SQLite, whose server is the process itself.
type clock struct{ monotonic.Clock }

func (c *clock) micros() int64 { return c.Micros() }
