package mysql

import (
	"testing"

	"github.com/stet-dev/stet/internal/integration/limiting"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/tier"
)

func TestLimits(t *testing.T) { // E01
	server(t, testserver.MariaDB, "")
	limiting.Alone(t, backend)
	t.Run("two gateways", func(t *testing.T) {
		tier.Campaign(t, "a rate over seconds")
		limiting.Together(t, backend)
	})
}
