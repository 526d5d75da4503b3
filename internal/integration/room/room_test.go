package room_test

import (
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/room"
	"github.com/stet-dev/stet/store/filestore"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/sealstore"
	"github.com/stet-dev/stet/store/storetest"
	"github.com/stet-dev/stet/store/tierstore"
)

var files = storetest.Backend{Open: func(t testing.TB, dir string, _ func() time.Time) stet.Store {
	s, err := filestore.Open(dir, filestore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}}

func TestMemory(t *testing.T) { // C11
	room.Holds(t, storetest.Backend{Open: func(testing.TB, string, func() time.Time) stet.Store { return memstore.New(memstore.Config{}) }}, 16<<20)
}

func TestFiles(t *testing.T) { room.Holds(t, files, 16<<20) } // C11

// A seal is opened in the room for what it holds, and a cache keeps no part of a record.
func TestFilesSealedBehindACache(t *testing.T) { // C11
	room.Holds(t, storetest.Backend{Open: func(t testing.TB, dir string, clock func() time.Time) stet.Store {
		sealed, err := sealstore.New(files.Open(t, dir, clock), sealstore.Config{Keys: sealstore.Keys{Primary: "a", Keys: map[string][]byte{"a": make([]byte, 32)}}})
		if err != nil {
			t.Fatal(err)
		}
		s, err := tierstore.New(tierstore.NewMemory(0), sealed, tierstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}}, 16<<20)
}
