package sealstore

import (
	"testing"

	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/store/memstore"
)

// Numbers that cannot be meant are refused where they enter.
func TestNumbersHaveBounds(t *testing.T) { // K12
	bounds.Refuses(t, configBounds, func() Config { return Config{} }, func(c Config) error {
		_, err := New(memstore.New(memstore.Config{}), c)
		return err
	})
}
