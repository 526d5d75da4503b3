package redis

import (
	"testing"

	"github.com/stet-dev/stet/internal/integration/room"
)

func TestRoom(t *testing.T) { room.Holds(t, alone(adapters[0])(t), 4<<20) } // C11
