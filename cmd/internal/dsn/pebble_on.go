//go:build pebble

package dsn

import (
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/pebblestore"
)

const pebbleBuilt = true

func openPebble(dir string, clock func() time.Time) (stet.Store, error) {
	return pebblestore.Open(dir, pebblestore.Config{Clock: clock})
}
