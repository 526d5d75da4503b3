package sqlite

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/stet-dev/stet/store/sqlstore"
)

func exec1(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	res, err := db.ExecContext(t.Context(), query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		t.Fatalf("%s: %d rows, %v", query, n, err)
	}
}

func TestMigrate(t *testing.T) {
	path := file(t)
	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx := t.Context()
	c := sqlstore.Config{Dialect: sqlstore.SQLite}
	if have, want, err := sqlstore.Status(ctx, db, sqlstore.SQLite); have != 0 || want < 1 || err != nil {
		t.Fatalf("an empty file: %d of %d, %v", have, want, err)
	}
	if _, err := sqlstore.Open(ctx, db, c); !errors.Is(err, sqlstore.ErrSchema) || !strings.Contains(err.Error(), "stet migrate up") {
		t.Fatalf("an empty file: %v", err)
	}
	errs := make(chan error, 8)
	for range cap(errs) { // several at once, then once more
		go func() { errs <- sqlstore.Migrate(ctx, db, sqlstore.SQLite) }()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if err := sqlstore.Migrate(ctx, db, sqlstore.SQLite); err != nil {
		t.Fatal(err)
	}
	have, want, err := sqlstore.Status(ctx, db, sqlstore.SQLite)
	if have != want || err != nil {
		t.Fatalf("%d of %d, %v", have, want, err)
	}
	s, err := sqlstore.Open(ctx, db, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	exec1(t, db, "INSERT INTO stet_schema (version) VALUES (?)", want+1)
	if _, err := sqlstore.Open(ctx, db, c); !errors.Is(err, sqlstore.ErrSchema) || !strings.Contains(err.Error(), "newer") {
		t.Errorf("a newer schema, open: %v", err)
	}
	if err := sqlstore.Migrate(ctx, db, sqlstore.SQLite); !errors.Is(err, sqlstore.ErrSchema) {
		t.Errorf("a newer schema, migrate: %v", err)
	}
}

// A migration that fails leaves nothing behind, and can be run again.
func TestMigrateAfterAFailure(t *testing.T) {
	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN(file(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE stet_keys (in_the_way)"); err != nil { // where the view goes, at the end of a step
		t.Fatal(err)
	}
	if err := sqlstore.Migrate(t.Context(), db, sqlstore.SQLite); err == nil {
		t.Fatal("no error")
	}
	if have, _, err := sqlstore.Status(t.Context(), db, sqlstore.SQLite); have != 0 || err != nil {
		t.Fatalf("version %d, %v", have, err)
	}
	if _, err := db.Exec("DROP TABLE stet_keys"); err != nil {
		t.Fatal(err)
	}
	if err := sqlstore.Migrate(t.Context(), db, sqlstore.SQLite); err != nil {
		t.Fatal(err)
	}
}

// The printed script makes the same schema as Migrate.
func TestPrintedSchema(t *testing.T) {
	dump := func(db *sql.DB) (text string) {
		err := db.QueryRow("SELECT group_concat(sql, '\n') || (SELECT max(version) FROM stet_schema) FROM (SELECT sql FROM sqlite_master ORDER BY name)").Scan(&text)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	byHand, err := sql.Open("sqlite", sqlstore.SQLiteDSN(file(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer byHand.Close()
	if _, err := byHand.Exec(sqlstore.SQLite.SQL(0)); err != nil {
		t.Fatal(err)
	}
	if got, want := dump(byHand), dump(database(t, file(t))); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
