package stet

import "context"

// ParseRecipe is for tests outside the package, which make records by the rules of older versions.
var ParseRecipe = parseRecipe

// What a zero field means.
const (
	DefaultStoreTimeout = defaultStoreTimeout
	DefaultLease        = defaultLease
	DefaultExecution    = defaultExecution
	DefaultRetain       = defaultRetain
	HolderGrace         = holderGrace
)

// Reading is the line of those who read large bodies.
type Reading struct{ line reading }

// Enter waits for a turn, and Leave ends it.
func (r *Reading) Enter(ctx context.Context, bytes int64) error { return r.line.enter(ctx, bytes) }
func (r *Reading) Leave(bytes int64)                            { r.line.leave(bytes) }

// MaxReading is how many bytes are read at a time.
const MaxReading = maxReading
