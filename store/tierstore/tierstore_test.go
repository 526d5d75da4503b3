package tierstore_test

import (
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/tier"
	"github.com/stet-dev/stet/store/breakerstore"
	"github.com/stet-dev/stet/store/filestore"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/storetest"
	"github.com/stet-dev/stet/store/tierstore"
)

func tiered(t testing.TB, cache tierstore.Cache, origin stet.Store, c tierstore.Config) *tierstore.Store {
	t.Helper()
	s, err := tierstore.New(cache, origin, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func memory(clock func() time.Time) *memstore.Store {
	return memstore.New(memstore.Config{Clock: clock})
}

func TestLawsWithACache(t *testing.T) {
	tier.Campaign(t, "the laws run over this store in another form in the gate")
	storetest.Run(t, storetest.Backend{Open: func(t testing.TB, _ string, clock func() time.Time) stet.Store {
		return tiered(t, tierstore.NewMemory(0), memory(clock), tierstore.Config{Clock: clock})
	}})
}

func TestLawsWithASharedCache(t *testing.T) {
	storetest.Run(t, storetest.Backend{Open: func(t testing.TB, _ string, clock func() time.Time) stet.Store {
		return tiered(t, tierstore.Shared(memory(clock)), memory(clock), tierstore.Config{Clock: clock, Timeout: 5 * time.Second})
	}})
}

func TestLawsInFlight(t *testing.T) {
	tier.Campaign(t, "the laws run over this store in another form in the gate")
	storetest.Run(t, storetest.Backend{Open: func(t testing.TB, _ string, clock func() time.Time) stet.Store {
		return tiered(t, tierstore.NewMemory(0), memory(clock), tierstore.Config{Clock: clock, InFlight: true})
	}})
}

func TestLawsOnDisk(t *testing.T) {
	tier.Campaign(t, "the laws run over this store in another form in the gate")
	storetest.Run(t, storetest.Backend{Durable: true, Shared: true, Open: func(t testing.TB, dir string, clock func() time.Time) stet.Store {
		origin, err := filestore.Open(dir, filestore.Config{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		guarded, err := breakerstore.New(origin, breakerstore.Config{Patience: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return tiered(t, tierstore.NewMemory(0), guarded, tierstore.Config{Clock: clock})
	}})
}
