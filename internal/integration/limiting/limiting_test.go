package limiting_test

import (
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/limiting"
	"github.com/stet-dev/stet/store/filestore"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/storetest"
)

func TestMemory(t *testing.T) { // E01
	limiting.Alone(t, storetest.Backend{Open: func(testing.TB, string, func() time.Time) stet.Store { return memstore.New(memstore.Config{}) }})
}

func TestFiles(t *testing.T) { // E01
	limiting.Alone(t, storetest.Backend{Open: func(t testing.TB, dir string, _ func() time.Time) stet.Store {
		s, err := filestore.Open(dir, filestore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}})
}
