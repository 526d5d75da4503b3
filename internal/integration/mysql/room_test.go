package mysql

import (
	"testing"

	"github.com/stet-dev/stet/internal/integration/room"
	"github.com/stet-dev/stet/internal/integration/testserver"
)

func TestRoom(t *testing.T) { // C11
	server(t, testserver.MariaDB, "")
	room.Holds(t, backend, 4<<20)
}
