package redis

import (
	"testing"

	"github.com/stet-dev/stet/internal/integration/limiting"
)

func TestLimits(t *testing.T) { // E01
	limiting.Alone(t, alone(adapters[0])(t))
	t.Run("two gateways", func(t *testing.T) { limiting.Together(t, alone(adapters[0])(t)) })
}
