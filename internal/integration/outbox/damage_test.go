package outbox

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/store/sqlstore"
)

// damages are what can be wrong with a row: a column, and what it cannot be read with.
func damages(d sqlstore.Dialect) map[string]string {
	all := map[string]string{"meta": "'secret'", "errors": "'secret'"}
	switch d {
	case sqlstore.Postgres:
		all["topic"], all["key"] = `'\secret'`, `'\x'`
	case sqlstore.SQLite:
		all["created_at"], all["payload"], all["life"] = "'secret'", "42", "x'00'"
	}
	return all
}

// A10: one row that cannot be read is dead by itself, with a line that says what is wrong with it.
// All others of its batch are delivered; nothing is unknown that no handler has seen; and no
// attempt is counted.
func TestDamagedRow(t *testing.T) {
	on(t, func(t *testing.T, db *database) {
		for column, value := range damages(db.dialect) {
			for _, honoured := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/honoured=%t", column, honoured), func(t *testing.T) {
					db.damaged(t, column, value, honoured)
				})
			}
		}
	})
}

func (db *database) damaged(t *testing.T, column, value string, honoured bool) {
	db.exec(t, "DELETE FROM stet_outbox")
	const good = 19
	for range good + 1 {
		db.add(t, outbox.Message{Topic: "t", KeyHonoured: honoured})
	}
	id := db.list(t)[4].ID
	quoted := column
	if db.dialect == sqlstore.MySQL {
		quoted = "`" + column + "`"
	}
	db.exec(t, "UPDATE stet_outbox SET %s = %s WHERE id = %d", quoted, value, id)
	var calls atomic.Int64
	w := db.worker(func(context.Context, *outbox.Delivery) outbox.Result { calls.Add(1); return outbox.Delivered() })
	w.MaxAttempts = 3
	for _, e := range until(t, w, good+1) {
		if want := map[bool]string{true: "dead", false: "done"}[e.ID == id]; e.Result != want {
			t.Errorf("%+v", e)
		}
	}
	if n := calls.Load(); n != good {
		t.Errorf("the handler was called %d times", n)
	}
	for _, m := range db.list(t) {
		if m.ID != id && (m.State != outbox.Done || m.Damage != "") {
			t.Errorf("a good message is %s, damage %q", m.State, m.Damage)
		}
	}
	m, err := db.shows().Show(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	last := m.Errors[len(m.Errors)-1].Error
	if m.State != outbox.Dead || m.Attempt != 0 || last != "dead: the message cannot be read: "+column {
		t.Errorf("the damaged one is %s after %d attempts: %v", m.State, m.Attempt, m.Errors)
	}
	if strings.Contains(fmt.Sprint(m.Errors, m.Damage), "secret") {
		t.Errorf("what the row holds is in its errors: %v", m.Errors)
	}
	if err := db.desk(t).Discard(t.Context(), m.Seen(), "ann", "it cannot be mended"); err != nil {
		t.Error(err)
	}
}

// A10, W31: a message whose workers die is dead after MaxAttempts, before anyone claims it once
// more.
func TestAttemptsHold(t *testing.T) {
	on(t, func(t *testing.T, db *database) {
		db.add(t, outbox.Message{Topic: "poison", KeyHonoured: true}, outbox.Message{Topic: "good"})
		// As a worker leaves it behind that died at its last attempt.
		db.exec(t, "UPDATE stet_outbox SET state = 'running', attempt = 3, version = 99, due_at = 1 WHERE topic = 'poison'")
		w := db.worker(func(_ context.Context, d *outbox.Delivery) outbox.Result {
			if d.Topic == "poison" {
				t.Error("another attempt")
			}
			return outbox.Delivered()
		})
		w.MaxAttempts = 3
		until(t, w, 1)
		if m := db.list(t)[0]; m.State != outbox.Dead || m.Attempt != 3 || len(m.Errors) != 1 {
			t.Errorf("%s after %d attempts: %v", m.State, m.Attempt, m.Errors)
		}
		// Of a worker that allows for more it is dead as soon as one that allows for less has it.
		db.exec(t, "UPDATE stet_outbox SET state = 'pending' WHERE topic = 'poison'")
		if e := until(t, w, 1)[0]; e.Result != "dead" || db.list(t)[0].Attempt != 3 {
			t.Errorf("%+v: %v", e, db.list(t)[0])
		}
	})
}
