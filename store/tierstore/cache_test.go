package tierstore

import (
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/memstore"
)

// A reader who comes late with an older record does not put it over a newer one.
func TestNewerStays(t *testing.T) {
	now := time.Now()
	at := func(v stet.Version, age time.Duration) stet.Record {
		return stet.Record{Head: stet.Head{ID: stet.ID{Scope: "s", Key: "k"}, Version: v, State: stet.Completed, UpdatedAt: now.Add(-age)}}
	}
	for name, f := range map[string]Cache{"memory": NewMemory(0), "shared": Shared(memstore.New(memstore.Config{}))} {
		for _, put := range []struct{ put, want stet.Record }{
			{at(1, time.Hour), at(1, 0)}, {at(3, time.Minute), at(3, 0)}, {at(2, 2*time.Minute), at(3, 0)}, {at(4, time.Second), at(4, 0)},
		} {
			if err := f.put(t.Context(), put.put, time.Minute, now, f.see(put.put.ID)); err != nil {
				t.Fatal(err)
			}
			got, _, ok, err := f.take(t.Context(), put.put.ID, now)
			if err != nil || !ok || got.Version != put.want.Version {
				t.Errorf("%s: after version %d was put there is %d (%v, %v)", name, put.put.Version, got.Version, ok, err)
			}
		}
	}
}
