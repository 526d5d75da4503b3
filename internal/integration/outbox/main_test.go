// Package outbox tests package outbox on real databases: SQLite, Postgres and MariaDB.
package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/outbox"
	"github.com/stet-dev/stet/store/sqlstore"
)

// A test that needs another process starts this binary again, with its part in the environment.
func TestMain(m *testing.M) {
	if os.Getenv(dsnEnv) != "" {
		os.Exit(child())
	}
	os.Exit(testserver.Main(m))
}

type database struct {
	*sql.DB
	of          testing.TB // the test that it ends with
	box         *outbox.Box
	dialect     sqlstore.Dialect
	driver, dsn string

	once     sync.Once
	settling *outbox.Desk
}

var serial atomic.Int64

// on runs a test on each kind of database, each time a new one.
func on(t *testing.T, test func(t *testing.T, db *database)) {
	for _, d := range []sqlstore.Dialect{sqlstore.SQLite, sqlstore.Postgres, sqlstore.MySQL} {
		t.Run(string(d), func(t *testing.T) { test(t, fresh(t, d)) })
	}
}

func fresh(t testing.TB, d sqlstore.Dialect) *database {
	t.Helper()
	name := fmt.Sprintf("outbox_%d", serial.Add(1))
	db := &database{of: t, box: outbox.New(d), dialect: d}
	switch d {
	case sqlstore.SQLite:
		db.driver, db.dsn = "sqlite", sqlstore.SQLiteDSN(filepath.Join(t.TempDir(), "stet.db"))
	case sqlstore.Postgres:
		s := testserver.Postgres(t)
		db.driver, db.dsn = "pgx", s.PostgresDSN(name)
		execute(t, db.driver, s.PostgresDSN("postgres"), "CREATE DATABASE "+name)
	case sqlstore.MySQL:
		s := testserver.MariaDB(t)
		db.driver, db.dsn = "mysql", s.MariaDBDSN(name)
		execute(t, db.driver, s.MariaDBDSN(""), "CREATE DATABASE "+name)
	}
	var err error
	if db.DB, err = sql.Open(db.driver, db.dsn); err != nil {
		t.Fatal(err)
	}
	db.SetMaxIdleConns(32)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := sqlstore.Migrate(t.Context(), db.DB, d); err != nil {
		t.Fatal(err)
	}
	return db
}

func execute(t testing.TB, driver, dsn, statement string) {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), statement)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// add commits messages, each in a transaction of its own.
func (db *database) add(t testing.TB, all ...outbox.Message) {
	t.Helper()
	for _, m := range all {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.box.Add(t.Context(), tx, m); err != nil {
			t.Fatal(errors.Join(err, tx.Rollback()))
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
}

// exec changes the tables past the outbox.
func (db *database) exec(t testing.TB, format string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), fmt.Sprintf(format, args...)); err != nil {
		t.Fatal(err)
	}
}

// shows is a desk where messages are only looked at.
func (db *database) shows() *outbox.Desk { return &outbox.Desk{Box: db.box, DB: db.DB} }

func (db *database) list(t testing.TB) []outbox.Stored {
	t.Helper()
	all, err := db.shows().List(context.Background(), outbox.Query{Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// worker is one for tests: quick, and it stops when the test says so.
func (db *database) worker(h outbox.Handler) outbox.Worker {
	return outbox.Worker{DB: db.DB, Dialect: db.dialect, Handler: h, Lease: 10 * time.Second, Backoff: time.Millisecond,
		MaxBackoff: 5 * time.Millisecond, Poll: 20 * time.Millisecond}
}

// until runs the worker until count attempts have ended, and returns their events.
func until(t testing.TB, w outbox.Worker, count int) (all []outbox.Event) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events := make(chan outbox.Event, 1000)
	w.Observe = func(e outbox.Event) { events <- e }
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	for len(all) < count {
		select {
		case e := <-events:
			all = append(all, e)
		case <-ctx.Done():
			t.Fatalf("%d of %d attempts: %v", len(all), count, all)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return all
}
