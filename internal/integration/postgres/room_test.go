package postgres

import (
	"testing"

	"github.com/stet-dev/stet/internal/integration/room"
)

func TestRoom(t *testing.T) { room.Holds(t, overPgx(""), 4<<20) } // C11
