package sqlite

import (
	"testing"

	"github.com/stet-dev/stet/internal/integration/room"
)

func TestRoom(t *testing.T) { room.Holds(t, backend, 16<<20) } // C11
