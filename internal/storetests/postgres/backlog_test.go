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
// keeps what was removed. A plan that sorts what is due reads all of it for each batch, and a walk from the beginning reads all that
// earlier batches have dealt with.
func TestBacklogIsWalkedOnce(t *testing.T) {
	const rows, batch = 3000, 100
	for _, c := range []struct {
		state stet.State
		work  func(e *stet.Engine, ctx context.Context, limit int) (int, error)
	}{{stet.Running, (*stet.Engine).Sweep}, {stet.Retryable, (*stet.Engine).Reap}} {
		t.Run(c.state.String(), func(t *testing.T) {
			address := database(t, address(t), t.Name())
			s := open(t, address, pgxstore.Config{})
			admin := connected(t, address)
			execute(t, admin, "TRUNCATE stet_records", "ALTER TABLE stet_records SET (autovacuum_enabled = off)")
			backlog(t, s, c.state, rows)
			// A table of which the server knows that it is large, and nothing else: the plan that is good for few rows looks good.
			execute(t, admin, "UPDATE pg_class SET reltuples = 2000000, relpages = pg_relation_size(oid) / 8192 WHERE relname = 'stet_records'")
			// Somebody who looks at what there was keeps the server from forgetting any of it.
			execute(t, connected(t, address), "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM stet_records")

			index := "stet_records_" + c.state.String()
			before := read(t, admin, index)
			e, err := stet.New(s, stet.Config{})
			if err != nil {
				t.Fatal(err)
			}
			for done := 0; done < rows; {
				n, err := c.work(e, t.Context(), batch)
				if err != nil || n == 0 {
					t.Fatalf("%d of %d were done, and then %d, %v", done, rows, n, err)
				}
				done += n
			}
			if err := s.Close(); err != nil { // its sessions tell what they read when they end
				t.Fatal(err)
			}
			for end := time.Now().Add(20 * time.Second); sessions(t, admin) > 2; {
				if time.Now().After(end) {
					t.Fatal("the store's sessions do not end")
				}
			}
			// A batch may read the one before it again, and once a second one begins at the very beginning.
			if n := read(t, admin, index) - before; n > 5*rows {
				t.Errorf("%d entries of the index were read for %d records", n, rows)
			}
		})
	}
}

// What becomes due before what was found a moment ago, by a clock that was set back, is found within a second or so, although a
// whole batch is due behind it.
func TestNothingIsPassedOverForLong(t *testing.T) {
	const batch = 10
	address := database(t, address(t), t.Name())
	s := opened(t, address, pgxstore.Config{})
	admin := connected(t, address)
	execute(t, admin, "TRUNCATE stet_records")
	backlog(t, s, stet.Running, 2*batch)
	q := stet.Query{States: []stet.State{stet.Running}, Limit: batch}
	heads, _, err := s.Due(t.Context(), q)
	if err != nil || len(heads) != batch {
		t.Fatal(len(heads), err)
	}
	late := heads[batch-1].ID
	execute(t, admin, fmt.Sprintf("UPDATE stet_records SET due_at = due_at - 3600000000 WHERE key = '%s'", string(late.Key)))
	for end := time.Now().Add(20 * time.Second); heads[0].ID != late; {
		if heads, _, err = s.Due(t.Context(), q); err != nil || len(heads) != batch {
			t.Fatal(len(heads), err)
		}
		if time.Now().After(end) {
			t.Fatal("what became due earlier than the others is not found")
		}
	}
	execute(t, admin, "DELETE FROM stet_records WHERE key <> '"+string(late.Key)+"'", "UPDATE stet_records SET due_at = due_at - 1")
	if heads, _, err = s.Due(t.Context(), q); err != nil || len(heads) != 1 || heads[0].ID != late {
		t.Errorf("with less than a batch: %d, %v; want the one that is there, at once", len(heads), err)
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
