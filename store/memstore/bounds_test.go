package memstore

import (
	"errors"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
)

// Numbers that cannot be meant are refused by the first write: New has no error.
func TestNumbersHaveBounds(t *testing.T) { // K12
	bounds.Refuses(t, configBounds, func() Config { return Config{} }, func(c Config) error {
		s := New(c)
		_, err := s.Create(t.Context(), stet.Record{Head: stet.Head{ID: stet.ID{Scope: "s", Key: "k"}, Version: 1, State: stet.Running}})
		if other := s.Append(t.Context(), stet.Change{}); !errors.Is(other, err) {
			t.Errorf("Create: %v, Append: %v", err, other)
		}
		return err
	})
}
