package sqlite

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stet-dev/stet/store/sqlstore"
)

// A setting that would break a promise is refused, with what to set.
func TestSettingsAreChecked(t *testing.T) {
	path := file(t)
	good := sqlstore.SQLiteDSN(path)
	for name, tt := range map[string]struct {
		dsn  string
		set  func(*sql.DB)
		want string
	}{
		"no sync on commit":  {dsn: strings.Replace(good, "synchronous(FULL)", "synchronous(NORMAL)", 1), want: "synchronous"},
		"sync set by hand":   {dsn: strings.Replace(good, "synchronous(FULL)", "synchronous(NORMAL)", 1), want: "synchronous", set: byHand("PRAGMA synchronous = FULL")},
		"no wait for others": {dsn: strings.Replace(good, "busy_timeout(5000)", "busy_timeout(0)", 1), want: "busy_timeout"},
		"a rollback journal": {dsn: strings.Replace(good, "journal_mode(WAL)", "journal_mode(DELETE)", 1), want: "journal_mode"},
		"a small pool":       {dsn: good, set: func(db *sql.DB) { db.SetMaxOpenConns(3) }, want: "SetMaxOpenConns"},
		"no file":            {dsn: "file:shared?mode=memory&cache=shared&_pragma=busy_timeout(5000)", want: "journal_mode"},
	} {
		t.Run(name, func(t *testing.T) {
			db, err := sql.Open("sqlite", tt.dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := sqlstore.Migrate(t.Context(), db, sqlstore.SQLite); err != nil {
				t.Fatal(err)
			}
			if tt.set != nil {
				tt.set(db)
			}
			s, err := sqlstore.Open(t.Context(), db, sqlstore.Config{Dialect: sqlstore.SQLite})
			if err == nil {
				s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v", err)
			}
			if n := db.Stats().InUse; n != 0 {
				t.Errorf("%d connections are held", n)
			}
		})
	}
	db := database(t, path)
	if _, err := sqlstore.Open(t.Context(), db, sqlstore.Config{}); err == nil || !strings.Contains(err.Error(), "Dialect") {
		t.Errorf("no dialect: %v", err)
	}
	if _, err := sqlstore.Open(t.Context(), db, sqlstore.Config{Dialect: sqlstore.SQLite, Readers: -1}); err == nil || !strings.Contains(err.Error(), "Readers") {
		t.Errorf("no readers: %v", err)
	}
}

func byHand(pragma string) func(*sql.DB) {
	return func(db *sql.DB) { _, _ = db.Exec(pragma) }
}

func TestDSNTakesAnyPath(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"stet.db", "with space.db", "per%cent.db", "what?.db", "ha#sh.db", "a&b=c.db", "umläut.db", "semi;colon.db"} {
		path := filepath.Join(dir, name)
		create(t, open(t, path), "k")
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Chdir(dir)
	create(t, open(t, "relative.db"), "k")
	create(t, open(t, "./dotted.db"), "k")
	for _, name := range []string{"relative.db", "dotted.db"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
