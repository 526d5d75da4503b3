package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/pgxstore"
	"github.com/stet-dev/stet/store/tierstore"
)

// What one process purges the copies of another do not replay, long before they are too old; and
// all copies go when the connection on which that is heard ends.
func TestPurgeIsHeardElsewhere(t *testing.T) {
	dsn := database(t, address(t), t.Name())
	there, origin := opened(t, dsn, pgxstore.Config{}), opened(t, dsn, pgxstore.Config{})
	here, err := tierstore.New(tierstore.NewMemory(0), origin, tierstore.Config{TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- here.Follow(ctx) }()
	settled := func(key string) stet.Head {
		t.Helper()
		r, err := here.Create(t.Context(), running(key))
		if err != nil {
			t.Fatal(err)
		}
		h, b := completed(r.Head)
		if h, err = here.Replace(t.Context(), r.Version, h, b); err != nil {
			t.Fatal(err)
		}
		return h
	}
	goes := func(d time.Duration, h stet.Head) bool {
		for ctx := within(t, d); ctx.Err() == nil; {
			if got, err := here.Get(t.Context(), h.ID); errors.Is(err, stet.ErrNotFound) || err == nil && got.Version != h.Version {
				return true
			}
		}
		return false
	}
	for name, change := range map[string]func(h stet.Head) error{
		"replace": func(h stet.Head) error {
			prev := h.Version
			h.Version, h.State, h.DueIn, h.Note = draw(), stet.Expired, 0, &stet.Note{Who: "ops", Why: "tests"}
			_, err := there.Replace(t.Context(), prev, h, &stet.Body{})
			return err
		},
		"delete": func(h stet.Head) error { return there.Delete(t.Context(), h.ID, h.Version) },
	} {
		n := 0
		eventually(t, "a copy is dropped after a "+name+", and it listens", func() bool {
			n++
			h := settled(fmt.Sprint(name, n))
			if err := change(h); err != nil {
				t.Fatal(err)
			}
			return goes(time.Second, h) // before it listened, nothing was heard
		})
	}
	h := settled("broken")
	eventually(t, "a connection that listens is ended", func() bool {
		tag, err := there.pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()`)
		return err == nil && tag.RowsAffected() > 0
	})
	if _, err := there.pool.Exec(t.Context(), `DELETE FROM stet_records WHERE key = 'broken'`); err != nil {
		t.Fatal(err)
	}
	if !goes(time.Minute, h) {
		t.Error("the copy outlives the connection")
	}
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
