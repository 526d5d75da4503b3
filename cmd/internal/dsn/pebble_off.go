//go:build !pebble

package dsn

import (
	"time"

	"github.com/stet-dev/stet"
)

// A build without the tag is a fifth smaller, and has a third fewer dependencies.
const pebbleBuilt = false

func openPebble(string, func() time.Time) (stet.Store, error) {
	panic("dsn: pebble: in a build that has none")
}
