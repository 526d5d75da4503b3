package outbox

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/store/sqlstore"
)

// ages gives messages a state and an age, in the order they were added.
func (db *database) ages(t *testing.T, all ...aged) {
	t.Helper()
	for i, m := range all {
		db.add(t, outbox.Message{Topic: fmt.Sprint(m.state)})
		id := db.list(t)[i].ID
		if _, err := db.ExecContext(t.Context(), fmt.Sprintf("UPDATE stet_outbox SET state = '%s', created_at = created_at - %d, due_at = due_at - %d WHERE id = %d",
			m.state, m.created.Microseconds(), m.ended.Microseconds(), id)); err != nil {
			t.Fatal(err)
		}
	}
}

type aged struct {
	state          outbox.State
	created, ended time.Duration // ago
}

// What is done or discarded goes when it has been so for long enough, whatever lies between;
// nothing else ever does.
func TestReap(t *testing.T) {
	const day = 24 * time.Hour
	all := []aged{
		{outbox.Dead, 30 * day, 30 * day}, {outbox.Unknown, 30 * day, 30 * day}, {outbox.Pending, 30 * day, 30 * day},
		{outbox.Done, 30 * day, 20 * day}, {outbox.Dead, 29 * day, 29 * day}, {outbox.Dead, 29 * day, 29 * day}, {outbox.Dead, 29 * day, 29 * day},
		{outbox.Discarded, 20 * day, 20 * day}, {outbox.Done, 20 * day, 6 * day}, {outbox.Done, 8 * day, 8 * day}, {outbox.Done, 6 * day, 6 * day},
	}
	left := []int{0, 1, 2, 4, 5, 6, 8, 10}
	on(t, func(t *testing.T, db *database) {
		for _, batch := range []int{0, 1, 3, 100} {
			if _, err := db.ExecContext(t.Context(), "DELETE FROM stet_outbox"); err != nil {
				t.Fatal(err)
			}
			db.ages(t, all...)
			var ids, want []int64
			for i, m := range db.list(t) {
				if ids = append(ids, m.ID); slices.Contains(left, i) {
					want = append(want, m.ID)
				}
			}
			n, err := db.box.Reap(t.Context(), db.DB, 7*day, batch)
			if batch == 0 {
				if err == nil {
					t.Error("batches of nothing")
				}
				continue
			}
			var got []int64
			for _, m := range db.list(t) {
				got = append(got, m.ID)
			}
			if err != nil || n != int64(len(ids)-len(want)) || !slices.Equal(got, want) {
				t.Errorf("in batches of %d: reaped %d, %v; left %v of %v instead of %v", batch, n, err, got, ids, want)
			}
		}
	})
}

// A worker removes what it has delivered, and not what was given up; with stet.Never it removes
// nothing.
func TestRetention(t *testing.T) {
	on(t, func(t *testing.T, db *database) {
		db.ages(t, aged{outbox.Done, time.Hour, time.Hour}, aged{outbox.Dead, time.Hour, time.Hour})
		count := func() int { return len(db.list(t)) }
		w := db.worker(func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Delivered() })
		w.Retention = stet.Never
		db.add(t, outbox.Message{Topic: "t"})
		until(t, w, 1)
		if n := count(); n != 3 {
			t.Errorf("%d messages are kept forever", n)
		}
		w.Retention = 50 * time.Millisecond
		start(t, w)
		for end := time.Now().Add(time.Minute); count() > 1; {
			if time.Now().After(end) {
				t.Fatalf("left: %v", db.list(t))
			}
		}
		if got := db.list(t); len(got) != 1 || got[0].State != outbox.Dead {
			t.Errorf("left: %v", got)
		}
	})
}

// Reaping waits for no transaction that is open, and no request waits for the reaper: a message
// that is being delivered keeps its lease.
func TestReapBesideAnOpenTransaction(t *testing.T) {
	const day = 24 * time.Hour
	on(t, func(t *testing.T, db *database) {
		if db.dialect == sqlstore.SQLite {
			t.Skip("there is one transaction at a time")
		}
		db.ages(t, aged{outbox.Done, 9 * day, 9 * day})
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if err := db.box.Add(t.Context(), tx, outbox.Message{Topic: "open"}); err != nil {
			t.Fatal(err)
		}
		db.add(t, outbox.Message{Topic: "behind"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if n, err := db.box.Reap(ctx, db.DB, 7*day, 100); n != 1 || err != nil {
			t.Errorf("reaped %d, %v", n, err)
		}
	})
}
