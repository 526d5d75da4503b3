package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/pgxstore"
)

// backlog puts n records in s that are due in state.
func backlog(t *testing.T, s stet.Store, state stet.State, n int) {
	t.Helper()
	const fillers = 64
	var filling sync.WaitGroup
	for f := range fillers {
		filling.Go(func() {
			for i := f; i < n; i += fillers {
				r := running(fmt.Sprintf("%s-%d", state, i))
				r.State, r.DueIn = state, time.Microsecond
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

// A backlog is worked off at a cost that is in proportion to it, however wrong the server's statistics are and however long it
// keeps what was removed. A plan that sorts what is due reads all of it for each page, and a walk that begins at the beginning for
// each reads all that earlier pages held.
func TestBacklogIsWalkedOnce(t *testing.T) {
	const rows, batch = 3000, 100
	for name, c := range map[string]struct {
		state stet.State
		work  func(o *stet.Operator, ctx context.Context, after string, limit int) (int, string, error)
		made  string
	}{
		"swept":                 {stet.Running, (*stet.Operator).Sweep, "SELECT 1"},
		"reaped":                {stet.Retryable, (*stet.Operator).Reap, "SELECT 1"},
		"reaped of one instant": {stet.Retryable, (*stet.Operator).Reap, "UPDATE stet_records SET due_at = 1763000000000000"},
	} {
		t.Run(name, func(t *testing.T) {
			s, admin, entries := watched(t)
			backlog(t, s, c.state, rows)
			execute(t, admin, c.made, "VACUUM stet_records")
			execute(t, admin, underestimated)
			// Somebody who looks at what there was keeps the server from forgetting any of it.
			execute(t, connected(t, s.address), "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM stet_records")
			e, err := stet.New(s, stet.Config{})
			if err != nil {
				t.Fatal(err)
			}
			done := 0
			for after := ""; ; {
				n, next, err := c.work(e.Operator(), t.Context(), after, batch)
				if err != nil {
					t.Fatalf("%d of %d were done, and then %d, %v", done, rows, n, err)
				}
				if done += n; next == "" {
					break
				}
				after = next
			}
			if done != rows {
				t.Errorf("%d of %d were done", done, rows)
			}
			// A page may read the one before it again, and a second walk begins at the very beginning.
			if n := entries("stet_records_" + c.state.String()); n > 5*rows {
				t.Errorf("%d entries of the index were read for %d records", n, rows)
			}
		})
	}
}

// What ended in one instant, such as after a server came back, is walked once like everything else (A07): what is left of the
// instant is found by an index, and not by reading all of it for each page. What cannot be read takes its place in a page, and neither
// ends nor hides anything (A2).
func TestWalkWithinAnInstant(t *testing.T) {
	const rows, page = 3000, 100
	s, admin, entries := watched(t)
	backlog(t, s, stet.Running, rows)
	execute(t, admin, underestimated, "UPDATE stet_records SET due_at = 1763000000000000",
		// The first three pages, and every tenth record after them.
		"UPDATE stet_records SET status = 999 WHERE id IN (SELECT id FROM stet_records ORDER BY id LIMIT 300)",
		"UPDATE stet_records SET schema = 99 WHERE status = 0 AND id % 10 = 0")
	var want int
	if err := admin.QueryRow(t.Context(), "SELECT count(*) FROM stet_records WHERE status = 0 AND schema <> 99").Scan(&want); err != nil {
		t.Fatal(err)
	}
	seen, pages := map[stet.ID]bool{}, 0
	q := stet.Query{States: []stet.State{stet.Running}, Limit: page}
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
	if len(seen) != want || pages != rows/page {
		t.Errorf("%d of %d records were met on %d pages", len(seen), want, pages)
	}
	if n := entries("stet_records_running"); n > 5*rows {
		t.Errorf("%d entries of the index were read for %d records", n, rows)
	}
}

// What becomes due before what an earlier walk found, by a clock that was set back, is what the next walk begins with.
func TestNothingIsPassedOver(t *testing.T) {
	const batch = 10
	address := database(t, address(t), t.Name())
	s := opened(t, address, pgxstore.Config{})
	admin := connected(t, address)
	execute(t, admin, "TRUNCATE stet_records")
	backlog(t, s, stet.Running, 2*batch)
	q := stet.Query{States: []stet.State{stet.Running}, Limit: batch}
	heads, next, err := s.Due(t.Context(), q)
	if err != nil || len(heads) != batch || next == "" {
		t.Fatal(len(heads), next, err)
	}
	late := heads[batch-1].ID
	execute(t, admin, fmt.Sprintf("UPDATE stet_records SET due_at = due_at - 3600000000 WHERE key = '%s'", string(late.Key)))
	if heads, _, err = s.Due(t.Context(), q); err != nil || len(heads) != batch || heads[0].ID != late {
		t.Errorf("%d are due, %v; what became due earlier than the others is not the first", len(heads), err)
	}
}

// underestimated makes a table of which the server knows its size, and nothing else: it believes that less than a page of what is in it
// is due, and the plan that is good for few rows looks good.
const underestimated = "UPDATE pg_class SET reltuples = 50000, relpages = pg_relation_size(oid) / 8192 WHERE relname = 'stet_records'"

// at is a store with its address.
type at struct {
	pooled
	address string
}

// watched is an empty store, and how many entries of an index have been read since then. That closes the store: its sessions
// tell what they read when they end.
func watched(t *testing.T) (at, *pgx.Conn, func(index string) int) {
	t.Helper()
	address := database(t, address(t), t.Name())
	s := at{open(t, address, pgxstore.Config{}), address}
	admin := connected(t, address)
	execute(t, admin, "TRUNCATE stet_records", "ALTER TABLE stet_records SET (autovacuum_enabled = off)")
	return s, admin, func(index string) int {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "end of the store's sessions", func() bool { return sessions(t, admin) <= 2 })
		return read(t, admin, index)
	}
}

func connected(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), strings.TrimSuffix(address, "&pool_max_conns=16"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// read is how many entries of an index sessions that have ended have read.
func read(t *testing.T, conn *pgx.Conn, index string) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = $1", index).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// sessions is how many there are on the connection's database.
func sessions(t *testing.T, conn *pgx.Conn) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
