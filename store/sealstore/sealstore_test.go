package sealstore_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/tier"
	"github.com/stet-dev/stet/store/breakerstore"
	"github.com/stet-dev/stet/store/filestore"
	"github.com/stet-dev/stet/store/memstore"
	"github.com/stet-dev/stet/store/sealstore"
	"github.com/stet-dev/stet/store/storetest"
	"github.com/stet-dev/stet/store/tierstore"
)

func key(b byte) []byte { return bytes.Repeat([]byte{b}, sealstore.KeySize) }

func oneKey() sealstore.Keys {
	return sealstore.Keys{Primary: "k1", Keys: map[string][]byte{"k1": key(1)}}
}

func hashedNames() sealstore.Keys {
	k := oneKey()
	k.Names = key(9)
	return k
}

func seal(t testing.TB, inner stet.Store, c sealstore.Config) *sealstore.Store {
	t.Helper()
	s, err := sealstore.New(inner, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func memory(clock func() time.Time) *memstore.Store {
	return memstore.New(memstore.Config{Clock: clock})
}

func TestLaws(t *testing.T) {
	storetest.Run(t, storetest.Backend{Open: func(t testing.TB, _ string, clock func() time.Time) stet.Store {
		return seal(t, memory(clock), sealstore.Config{Keys: oneKey()})
	}})
}

func TestLawsWithHashedNames(t *testing.T) {
	tier.Campaign(t, "the laws run over this store in another form in the gate")
	storetest.Run(t, storetest.Backend{Open: func(t testing.TB, _ string, clock func() time.Time) stet.Store {
		return seal(t, memory(clock), sealstore.Config{Keys: hashedNames()})
	}})
}

func TestLawsAcceptingPlain(t *testing.T) {
	tier.Campaign(t, "the laws run over this store in another form in the gate")
	storetest.Run(t, storetest.Backend{Open: func(t testing.TB, _ string, clock func() time.Time) stet.Store {
		return seal(t, memory(clock), sealstore.Config{Keys: oneKey(), AcceptPlain: true, CompressOver: -1})
	}})
}

// The whole stack, in its order.
func TestLawsSealTierBreaker(t *testing.T) {
	storetest.Run(t, storetest.Backend{Durable: true, Shared: true, Open: func(t testing.TB, dir string, clock func() time.Time) stet.Store {
		back, err := filestore.Open(dir, filestore.Config{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		guarded, err := breakerstore.New(back, breakerstore.Config{Patience: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		tiered, err := tierstore.New(tierstore.NewMemory(0), guarded, tierstore.Config{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		return seal(t, tiered, sealstore.Config{Keys: hashedNames()})
	}})
}
