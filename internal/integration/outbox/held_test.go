package outbox

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/store/sqlstore"
)

// A2: rows that a transaction holds are passed by, by the claim, by the sweep of lapsed leases, by
// the sorting of lines and by Reap. All others go on.
func TestHeldRowsArePassedBy(t *testing.T) {
	on(t, func(t *testing.T, db *database) {
		if db.dialect == sqlstore.SQLite {
			return // a transaction holds the whole file, or nothing
		}
		for _, line := range []string{"k", "l"} {
			db.add(t, outbox.Message{Topic: "pending"}, outbox.Message{Topic: "lapsed"}, outbox.Message{Topic: "done"},
				outbox.Message{Topic: "sorted", OrderKey: line})
		}
		all := db.list(t)
		for _, change := range []string{"SET state = 'running', attempt = 1, version = 99, due_at = 1 WHERE topic = 'lapsed'",
			"SET state = 'done', due_at = 1, created_at = 1 WHERE topic = 'done'"} {
			db.exec(t, "UPDATE stet_outbox %s", change)
		}
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all[:4] { // an operator's open transaction
			hold := fmt.Sprintf("UPDATE stet_outbox SET updated_at = updated_at + 1 WHERE id = %d", m.ID)
			if _, err := tx.ExecContext(t.Context(), hold); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if n, err := db.box.Reap(ctx, db.DB, time.Hour, 100); n != 1 || err != nil {
			t.Errorf("reaped %d, %v", n, err)
		}
		w := db.worker(func(context.Context, *outbox.Delivery) outbox.Result { return outbox.Delivered() })
		until(t, w, 2) // the other pending one, and the other line's
		for end := time.Now().Add(time.Minute); db.count(t, "state = 'unknown'") != 1 && time.Now().Before(end); {
			until(t, w, 0)
		}
		states := map[int64]outbox.State{}
		for _, m := range db.list(t) {
			states[m.ID] = m.State
		}
		for i, want := range []outbox.State{outbox.Pending, outbox.Running, outbox.Done, outbox.Pending,
			outbox.Done, outbox.Unknown, "", outbox.Done} {
			if got := states[all[i].ID]; got != want {
				t.Errorf("message %d, %s, is %q instead of %q", i, all[i].Topic, got, want)
			}
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		until(t, w, 2)
		if n, err := db.box.Reap(ctx, db.DB, time.Hour, 100); n != 1 || err != nil {
			t.Errorf("reaped %d of what was held, %v", n, err)
		}
	})
}

// A2: one message that the database does not let go keeps no other from being reaped.
func TestReapPassesByWhatIsRefused(t *testing.T) {
	on(t, func(t *testing.T, db *database) {
		const day = 24 * time.Hour
		old := aged{outbox.Done, 9 * day, 9 * day}
		db.ages(t, old, old, old, old)
		id := db.list(t)[1].ID
		var refuse []string
		switch db.dialect {
		case sqlstore.SQLite:
			refuse = []string{fmt.Sprintf("CREATE TRIGGER keep BEFORE DELETE ON stet_outbox WHEN OLD.id = %d "+
				"BEGIN SELECT RAISE(ABORT, 'kept'); END", id)}
		default:
			refuse = []string{"CREATE TABLE receipts (message bigint NOT NULL, " +
				"FOREIGN KEY (message) REFERENCES stet_outbox (id))",
				fmt.Sprintf("INSERT INTO receipts VALUES (%d)", id)}
		}
		for _, statement := range refuse {
			db.exec(t, "%s", statement)
		}
		for _, want := range []int64{3, 0} {
			if n, err := db.box.Reap(t.Context(), db.DB, 7*day, 3); n != want || err == nil {
				t.Errorf("reaped %d instead of %d, %v", n, want, err)
			}
		}
	})
}
