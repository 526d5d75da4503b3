//go:build !stetfault

package dsn

import (
	"time"

	"github.com/stet-dev/stet"
)

const faultsBuilt = false

// faults exists in builds for tests.
func (DSN) faults() (clock func() time.Time, wrap func(stet.Store) (stet.Store, func() error, error)) {
	panic("dsn: a faulty store in a build that has none")
}
