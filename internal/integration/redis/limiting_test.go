package redis

import (
	"testing"

	"github.com/stet-dev/stet/internal/integration/limiting"
	"github.com/stet-dev/stet/internal/tier"
)

func TestLimits(t *testing.T) { // E01
	limiting.Alone(t, alone(adapters[0])(t))
	t.Run("two gateways", func(t *testing.T) {
		tier.Campaign(t, "a rate over seconds")
		limiting.Together(t, alone(adapters[0])(t))
	})
}
