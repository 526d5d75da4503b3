package mysql

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/paging"
	"github.com/stet-dev/stet/internal/integration/testserver"
)

// handled is how many rows and entries of indexes the server has read.
func handled(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	err := db.QueryRowContext(t.Context(), "SELECT SUM(VARIABLE_VALUE) FROM information_schema.GLOBAL_STATUS "+
		"WHERE VARIABLE_NAME IN ('HANDLER_READ_NEXT', 'HANDLER_READ_KEY', 'HANDLER_READ_FIRST')").Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// What is due is walked once, also what ended in one instant, as after a server came back (A07):
// what is left of the instant is found by an index, and not by reading all of it for each page.
// What cannot be read takes its place in a page, and neither ends nor hides anything (A2).
func TestDueIsWalkedOnce(t *testing.T) {
	t.Parallel()
	const rows, page = 2000, 50
	db := migrated(t, fresh(t, testserver.NewMariaDB(t).Addr))
	s := over(t, db)
	paging.Backlog(t, s, rows, func(i int) stet.Record {
		r := named(fmt.Sprint("due-", i))
		r.DueIn = 0
		return r
	})
	for _, c := range []struct {
		name, change string
		states       []stet.State
		want         int
	}{
		{"one after the other", "", []stet.State{stet.Running}, rows},
		{"at one instant", "UPDATE stet_records SET due_at = 1763000000000000", []stet.State{stet.Running}, rows},
		{"of any state", "", nil, rows},
		{"with a page that cannot be read", "UPDATE stet_records SET status = 999 ORDER BY id LIMIT 100", []stet.State{stet.Running}, rows - 100},
		{"with a newer program's", "UPDATE stet_records SET `schema` = 99 WHERE `status` = 0 ORDER BY id DESC LIMIT 7", nil, rows - 107},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.change != "" {
				execute(t, db, c.change)
			}
			before := handled(t, db)
			met, pages := paging.Walk(t, s, stet.Query{States: c.states, Limit: page})
			if met != c.want || pages != rows/page {
				t.Errorf("%d of %d records were met on %d pages", met, c.want, pages)
			}
			// A page reads one more than it shows, and of each state where it begins.
			if n := handled(t, db) - before; n > 3*rows {
				t.Errorf("%d rows were read for %d records", n, rows)
			}
		})
	}
}
