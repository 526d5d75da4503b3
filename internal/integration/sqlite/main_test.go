package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/store/sqlstore"
)

// A test that needs another process starts this binary again, with the part to play in the
// environment.
func TestMain(m *testing.M) {
	if part := os.Getenv("STET_SQLITE_PART"); part != "" {
		os.Exit(parts[part](os.Getenv("STET_SQLITE_FILE")))
	}
	goleak.VerifyTestMain(m)
}

var parts = map[string]func(path string) int{
	"racer": racer,
	"late":  late,
}

// database opens the file at path and makes its tables.
func database(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN(path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := sqlstore.Migrate(t.Context(), db, sqlstore.SQLite); err != nil {
		t.Fatal(err)
	}
	return db
}

// over returns a store on db, which the test closes first.
func over(t testing.TB, db *sql.DB, c sqlstore.Config) *sqlstore.Store {
	t.Helper()
	c.Dialect = sqlstore.SQLite
	s, err := sqlstore.Open(t.Context(), db, c)
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

func open(t testing.TB, path string) *sqlstore.Store {
	t.Helper()
	return over(t, database(t, path), sqlstore.Config{})
}

func file(t testing.TB) string { return filepath.Join(t.TempDir(), "stet.db") }

// create stores a record with the key, and returns it.
func create(t testing.TB, s stet.Store, key string) stet.Record {
	t.Helper()
	r := sample()
	r.Key = stet.Key(key)
	got, err := s.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// completed is the next write of a record: its result.
func completed(r stet.Record, body string) (stet.Head, *stet.Body) {
	h := r.Head
	h.State, h.Version, h.Status, h.Size = stet.Completed, draw(), 201, int64(len(body))
	return h, &stet.Body{Response: &stet.Response{Status: 201, Body: []byte(body),
		Header: []stet.Field{{Name: "Content-Type", Value: "text/plain"}}}}
}

// lock begins a transaction on the file, as another process does, and returns how to end it.
func lock(t testing.TB, db *sql.DB) (unlock func()) {
	t.Helper()
	tx, err := db.BeginTx(context.Background(), nil) // immediate, by the DSN
	if err != nil {
		t.Fatal(err)
	}
	unlock = func() {
		if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
			t.Error(err)
		}
	}
	t.Cleanup(unlock)
	return unlock
}

// watched is a context that tells when a call waits for its end: then a write is in the queue, or
// waits for the lock.
type watched struct {
	context.Context
	asked chan struct{}
}

func watch(ctx context.Context) *watched { return &watched{ctx, make(chan struct{}, 1)} }

func (w *watched) Done() <-chan struct{} {
	select {
	case w.asked <- struct{}{}:
	default:
	}
	return w.Context.Done()
}
