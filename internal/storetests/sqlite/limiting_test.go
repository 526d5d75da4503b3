package sqlite

import (
	"testing"

	"github.com/stet-dev/stet/internal/storetests/limiting"
)

func TestLimits(t *testing.T) { limiting.Alone(t, backend) } // E01
