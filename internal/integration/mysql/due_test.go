package mysql

import (
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
)

// backlog puts n records in s that are due.
func backlog(t *testing.T, s stet.Store, n int) {
	t.Helper()
	const fillers = 64
	var filling sync.WaitGroup
	for f := range fillers {
		filling.Go(func() {
			for i := f; i < n; i += fillers {
				r := named(fmt.Sprint("due-", i))
				r.DueIn = 0
				if _, err := s.Create(t.Context(), r); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	filling.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// walk follows the cursor to its end, and fails the test where a record is met twice.
func walk(t *testing.T, s stet.Store, q stet.Query) (met, pages int) {
	t.Helper()
	seen := map[stet.ID]bool{}
	for more := true; more; more = q.After != "" {
		heads, next, err := s.Due(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range heads {
			if seen[h.ID] {
				t.Errorf("%s is met twice", string(h.Key))
			}
			seen[h.ID] = true
		}
		q.After = next
		pages++
	}
	return len(seen), pages
}

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

// What is due is walked once, also what ended in one instant, as after a server came back (A07): what is left of the instant is found
// by an index, and not by reading all of it for each page. What cannot be read takes its place in a page, and neither ends nor hides
// anything (A2).
func TestDueIsWalkedOnce(t *testing.T) {
	t.Parallel()
	const rows, page = 2000, 50
	db := migrated(t, fresh(t, testserver.NewMariaDB(t).Addr))
	s := over(t, db)
	backlog(t, s, rows)
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
			met, pages := walk(t, s, stet.Query{States: c.states, Limit: page})
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
