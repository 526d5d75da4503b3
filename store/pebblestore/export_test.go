package pebblestore

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/codec"
	"github.com/stet-dev/stet/store/storetest"
)

// Tamper changes a record behind the store's back: as a tool that writes to the same tree would.
func Tamper(t testing.TB, store stet.Store, id stet.ID, with storetest.Tampering) {
	t.Helper()
	s := store.(*Store)
	key := keyOf(headKey, id)
	old, err := head(s.db, id)
	if err != nil {
		t.Fatal(err)
	}
	r := old
	if with.Version != 0 {
		r.Version = with.Version
	}
	for _, at := range []*time.Time{&r.CreatedAt, &r.UpdatedAt, &r.CompletedAt, &r.DueAt} {
		if !at.IsZero() {
			*at = at.Add(with.Ahead)
		}
	}
	b := s.db.NewBatch()
	if err := s.put(b, &old, &r, appendRest(nil, &r.Head)); err != nil {
		t.Fatal(err)
	}
	if with.Format {
		v := r.encode(key, appendRest(nil, &r.Head))
		v = v[:len(v)-sumLen]
		v[0] = codec.Format + 1
		if err := b.Set(key, sealed(key, v), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Commit(pebble.Sync); err != nil {
		t.Fatal(err)
	}
}
