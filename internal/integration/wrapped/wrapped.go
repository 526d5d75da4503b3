// Package wrapped puts all wrappers around a store for its laws: what the store can do, they let
// through.
package wrapped

import (
	"bytes"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/ability"
	"github.com/stet-dev/stet/store/breakerstore"
	"github.com/stet-dev/stet/store/sealstore"
	"github.com/stet-dev/stet/store/storetest"
	"github.com/stet-dev/stet/store/tierstore"
)

// Backend is b with seal(tier(cache, breaker(store))) around each store: encrypted, names hashed, a
// cache in front.
func Backend(b storetest.Backend) storetest.Backend {
	b.Look = 0 // no wrapper changes where a page ends
	open, begin, tamper, unconfirmed := b.Open, b.Begin, b.Tamper, b.Unconfirmed
	b.Open = func(t testing.TB, dir string, clock func() time.Time) stet.Store {
		back := open(t, dir, clock)
		if b.ServerClock {
			clock = nil
		}
		guarded, err := breakerstore.New(back, breakerstore.Config{Patience: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		tiered, err := tierstore.New(tierstore.NewMemory(0), guarded, tierstore.Config{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := sealstore.New(tiered, sealstore.Config{Keys: sealstore.Keys{
			Primary: "k1", Keys: map[string][]byte{"k1": bytes.Repeat([]byte{1}, sealstore.KeySize)}, Names: bytes.Repeat([]byte{2}, sealstore.KeySize)}})
		if err != nil {
			t.Fatal(err)
		}
		return stack{sealed, back}
	}
	if begin != nil {
		b.Begin = func(t testing.TB, s stet.Store) (any, func() error, func() error) { return begin(t, s.(stack).back) }
	}
	if tamper != nil {
		b.Tamper = func(t testing.TB, s stet.Store, id stet.ID, with storetest.Tampering) {
			tamper(t, s.(stack).back, stored(t, s.(stack), id), with)
		}
	}
	if unconfirmed != nil {
		b.Unconfirmed = func(t testing.TB, s stet.Store) func() { return unconfirmed(t, s.(stack).back) }
	}
	if backup := b.Backup; backup != nil {
		b.Backup = func(t testing.TB, s stet.Store) func() { return backup(t, s.(stack).back) }
	}
	if empty := b.Empty; empty != nil {
		b.Empty = func(t testing.TB, s stet.Store) { empty(t, s.(stack).back) }
	}
	return b
}

// stored is the name under which the store below knows the record of id: the one that has its
// version.
func stored(t testing.TB, s stack, id stet.ID) stet.ID {
	t.Helper()
	r, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	below, ok := stet.As[stet.Lister](s.back)
	if !ok {
		t.Fatal("the store below cannot say under which name it has a record")
	}
	for q := (stet.Query{Limit: stet.MaxLimit}); ; {
		heads, next, err := below.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range heads {
			if h.Version == r.Version {
				return h.ID
			}
		}
		if q.After = next; next == "" {
			t.Fatal("the store below has no record of that version")
		}
	}
}

// stack remembers what it stands on.
type stack struct {
	*sealstore.Store
	back stet.Store
}

func (s stack) Close() error { return ability.Close(s.back) }
