package sqlite

import (
	"testing"

	"github.com/stet-dev/stet/internal/integration/limiting"
)

func TestLimits(t *testing.T) { limiting.Alone(t, backend) } // E01
