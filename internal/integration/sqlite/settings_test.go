package sqlite

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

// Tables that lack something are noticed before a request comes, not by it.
func TestTablesAreChecked(t *testing.T) {
	for _, spoil := range []string{
		"DROP TABLE stet_history", "DROP TABLE stet_records",
		"ALTER TABLE stet_records RENAME COLUMN route TO way", "ALTER TABLE stet_history RENAME COLUMN evidence TO proof",
	} {
		db := database(t, file(t))
		if _, err := db.ExecContext(t.Context(), spoil); err != nil {
			t.Fatal(err)
		}
		s, err := sqlstore.Open(t.Context(), db, sqlstore.Config{Dialect: sqlstore.SQLite})
		if err == nil {
			_ = s.Close()
		}
		if n := db.Stats().InUse; !errors.Is(err, sqlstore.ErrSchema) || n != 0 {
			t.Errorf("%s: %v; %d connections are held", spoil, err, n)
		}
	}
}

// What the program sets on a connection of the pool, and gives back, ends no read: promises rest on
// the writer's settings.
func TestReadersTakeAnyConnection(t *testing.T) {
	db := database(t, file(t))
	s, err := sqlstore.Open(t.Context(), db, sqlstore.Config{Dialect: sqlstore.SQLite})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	id := create(t, s, "k").ID
	conns := make([]*sql.Conn, 2)
	for i := range conns {
		if conns[i], err = db.Conn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := conns[i].ExecContext(t.Context(), "PRAGMA synchronous = NORMAL"); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range conns {
		_ = c.Close()
	}
	var wg sync.WaitGroup
	for range 16 { // so that further connections are needed
		wg.Go(func() {
			for range 200 {
				if _, err := s.Get(t.Context(), id); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
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
