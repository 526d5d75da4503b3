package adminclient

import (
	"testing"

	"github.com/stet-dev/stet/internal/bounds"
)

// Numbers that cannot be meant are refused where they enter.
func TestNumbersHaveBounds(t *testing.T) { // K12
	valid := func() Config { return Config{Address: "http://127.0.0.1:1"} }
	bounds.Refuses(t, configBounds, valid, func(c Config) error { _, err := New(c); return err })
}
