package operate

import (
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/store/memstore"
)

// A service with numbers that cannot be meant is none.
func TestNumbersHaveBounds(t *testing.T) { // K12
	e, err := stet.New(memstore.New(memstore.Config{}), stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	bounds.Refuses(t, configBounds, func() Config { return Config{Engine: e} }, func(c Config) error {
		_, err := New(c)
		return err
	})
}
