// Package upgrades has the tests of schemas that a newer program has made.
package upgrades

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/opened"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/rest"
	"github.com/stet-dev/stet/internal/usable"
	"github.com/stet-dev/stet/store/sqlstore"
)

func TestMain(m *testing.M) { testserver.Main(m) }

// While the schema of the next release is put in place, gateways of this one go on, and may be
// started again on it, as after a release that is rolled back. A schema that this release cannot
// work with is refused at the start.
func TestARollingUpgrade(t *testing.T) { // S12, N09
	for _, d := range []sqlstore.Dialect{sqlstore.SQLite, sqlstore.MySQL, sqlstore.Postgres} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			db := opened.Database(t, d)
			exec := func(statement string) {
				t.Helper()
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			_, knows, err := sqlstore.Status(t.Context(), db, d)
			if err != nil {
				t.Fatal(err)
			}
			gateway := open(t, db, d)
			load := start(t, gateway)
			load.await(t, 20)
			exec("ALTER TABLE stet_records ADD COLUMN later BIGINT")
			exec("CREATE TABLE stet_later (x BIGINT)")
			exec(fmt.Sprintf("INSERT INTO stet_schema (version) VALUES (%d)", knows+1))
			load.await(t, 20)
			if _, err := sqlstore.Open(t.Context(), db, sqlstore.Config{Dialect: d}); !errors.Is(err, sqlstore.ErrSchema) {
				t.Errorf("of a schema that does not say who works with it: %v", err)
			}
			exec(fmt.Sprintf("INSERT INTO stet_schema (version) VALUES (%d)", -knows))
			again := open(t, db, d)
			if err := usable.Prove(t.Context(), again, true); err != nil {
				t.Errorf("started again: %v", err)
			}
			beside := start(t, again)
			beside.await(t, 20)
			load.await(t, 20)
			if err := sqlstore.Migrate(t.Context(), db, d); err != nil {
				t.Errorf("migrate: %v", err)
			}
			if have, want, err := sqlstore.Status(t.Context(), db, d); have != knows+1 || want != knows || err != nil {
				t.Errorf("status %d of %d, %v", have, want, err)
			}
			exec(fmt.Sprintf("INSERT INTO stet_schema (version) VALUES (%d)", -knows-1))
			_, err = sqlstore.Open(t.Context(), db, sqlstore.Config{Dialect: d})
			if !errors.Is(err, sqlstore.ErrSchema) || !strings.Contains(err.Error(), "start the newer one") {
				t.Errorf("of a schema that is of no use to it: %v", err)
			}
			load.stop(t)
			beside.stop(t)
		})
	}
}

func open(t *testing.T, db *sql.DB, d sqlstore.Dialect) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), db, sqlstore.Config{Dialect: d})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// load is a gateway's: keys are made, completed and replayed.
type load struct {
	end     context.CancelFunc
	working sync.WaitGroup
	done    atomic.Int64
	failed  atomic.Pointer[error]
}

var keys atomic.Int64

func start(t *testing.T, s stet.Store) *load {
	t.Helper()
	e, err := stet.New(s, stet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	l := &load{end: end}
	for range 2 {
		l.working.Go(func() {
			for rest.For(ctx, 5*time.Millisecond) { // else one writer of SQLite's file starves the other
				q := stet.Request{ID: stet.ID{Scope: "s", Key: stet.Key(fmt.Sprint("k", keys.Add(1)))}, Operation: "load"}
				run := func(context.Context, *stet.Claim) (int, error) { return 7, nil }
				first, err := stet.DoResult(context.WithoutCancel(ctx), e, q, run)
				again, failed := stet.DoResult(context.WithoutCancel(ctx), e, q, run)
				if err = errors.Join(err, failed); err == nil && (first.Replayed || !again.Replayed) {
					err = fmt.Errorf("it ran %v and %v", first, again)
				}
				if err != nil {
					l.failed.CompareAndSwap(nil, &err)
				}
				l.done.Add(1)
			}
		})
	}
	t.Cleanup(func() { end(); l.working.Wait(); _ = e.Drain(context.Background()) })
	return l
}

// await waits for some more keys.
func (l *load) await(t *testing.T, more int64) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for to := l.done.Load() + more; l.done.Load() < to; {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("no key is done any more")
		}
	}
}

func (l *load) stop(t *testing.T) {
	t.Helper()
	l.end()
	l.working.Wait()
	if err := l.failed.Load(); err != nil {
		t.Errorf("a request failed: %v", *err)
	}
}
