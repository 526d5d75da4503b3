package blackbox

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the suite and fails it if a goroutine outlives it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
