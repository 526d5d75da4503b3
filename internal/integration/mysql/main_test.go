// Package mysql tests sqlstore on a real MariaDB, also on one that says it is a MySQL.
package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/store/sqlstore"
)

func TestMain(m *testing.M) {
	if err := driver.SetLogger(&driver.NopLogger{}); err != nil { // it tells of every connection that a test cuts
		panic(err)
	}
	os.Exit(testserver.Main(m))
}

var databases atomic.Int64

// fresh makes an empty database on the server at addr, and returns its data source name.
func fresh(t testing.TB, addr string) string {
	t.Helper()
	admin := connect(t, "root@tcp("+addr+")/")
	name := fmt.Sprintf("test_%d_%d", os.Getpid(), databases.Add(1))
	execute(t, admin, "CREATE DATABASE "+name)
	return "root@tcp(" + addr + ")/" + name
}

func connect(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func execute(t testing.TB, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(context.Background(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// migrated is a database with its tables.
func migrated(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db := connect(t, dsn)
	if err := sqlstore.Migrate(t.Context(), db, sqlstore.MySQL); err != nil {
		t.Fatal(err)
	}
	return db
}

// over returns a store on db, which the test closes first.
func over(t testing.TB, db *sql.DB) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), db, sqlstore.Config{Dialect: sqlstore.MySQL})
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

// open returns a store in a database of the test's own, on the shared server.
func open(t testing.TB) (*sqlstore.Store, *sql.DB) {
	t.Helper()
	db := migrated(t, fresh(t, testserver.MariaDB(t).Addr))
	return over(t, db), db
}

// create stores a record with the key, and returns it.
func create(t testing.TB, s stet.Store, key string) stet.Record {
	t.Helper()
	got, err := s.Create(t.Context(), named(key))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func named(key string) stet.Record {
	r := sample()
	r.Key = stet.Key(key)
	return r
}

// completed is the next write of a record: its result.
func completed(r stet.Record, body string) (stet.Head, *stet.Body) {
	h := r.Head
	h.State, h.Version, h.Status, h.Size, h.DueIn = stet.Completed, draw(), 201, int64(len(body)), time.Hour
	return h, &stet.Body{Response: &stet.Response{Status: 201, Body: []byte(body),
		Header: []stet.Field{{Name: "Content-Type", Value: "text/plain"}}}}
}

// within returns a context that ends soon enough for a test to go on.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// eventually calls f until it reports true. It fails the test after a minute.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for ctx := within(t, time.Minute); !f(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("it does not happen: " + what)
		}
	}
}

// quiet fails the test where an error tells a key.
func quiet(t testing.TB, err error, key string) {
	t.Helper()
	if err != nil && strings.Contains(err.Error(), key) {
		t.Errorf("an error tells the key: %v", err)
	}
}
