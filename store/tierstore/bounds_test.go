package tierstore

import (
	"errors"
	"math"
	"testing"

	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/store/memstore"
)

// Numbers that cannot be meant are refused where they enter.
func TestNumbersHaveBounds(t *testing.T) { // K12
	bounds.Refuses(t, configBounds, func() Config { return Config{} }, func(c Config) error {
		_, err := New(NewMemory(0), memstore.New(memstore.Config{}), c)
		return err
	})
	for _, size := range []int64{-1, math.MinInt64, math.MaxInt64} {
		if _, err := New(NewMemory(size), memstore.New(memstore.Config{}), Config{}); !errors.As(err, new(*bounds.Error)) {
			t.Errorf("a cache of %d bytes: %v", size, err)
		}
	}
}
