package postgres

import (
	"testing"

	"github.com/stet-dev/stet/internal/integration/limiting"
)

func TestLimits(t *testing.T) { // E01
	limiting.Alone(t, overPgx(""))
	t.Run("two gateways", func(t *testing.T) { limiting.Together(t, overPgx("")) })
}
