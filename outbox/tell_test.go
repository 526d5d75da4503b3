package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stet-dev/stet/store/sqlstore"
)

// heard counts the notifications of a transaction.
type heard int

func (h *heard) ExecContext(_ context.Context, query string, _ ...any) (sql.Result, error) {
	if strings.Contains(query, "pg_notify") {
		*h++
	}
	return driver.RowsAffected(1), nil
}

// Postgres lets no two transactions commit at once that tell of something: of a thousand a second
// only ten do.
func TestTell(t *testing.T) {
	for d, want := range map[sqlstore.Dialect]heard{sqlstore.Postgres: 10, sqlstore.SQLite: 0, sqlstore.MySQL: 0} {
		synctest.Test(t, func(t *testing.T) {
			box, got := New(d), heard(0)
			for _, delay := range []time.Duration{time.Hour, 0} { // no worker need wake for what is not due
				for range 1000 {
					if err := box.Add(t.Context(), &got, Message{Topic: "t", Delay: delay}); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Millisecond)
				}
			}
			if got != want {
				t.Errorf("%s: %d notifications", d, got)
			}
		})
	}
}
