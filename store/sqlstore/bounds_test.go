package sqlstore

import (
	"database/sql"
	"testing"

	"github.com/stet-dev/stet/internal/bounds"
)

// Numbers that cannot be meant are refused where they enter.
func TestNumbersHaveBounds(t *testing.T) { // K12
	bounds.Refuses(t, configBounds, func() Config { return Config{} }, func(c Config) error {
		_, err := Open(t.Context(), new(sql.DB), c) // without a dialect
		return err
	})
}
