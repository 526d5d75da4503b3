package mysql

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/integration/testserver"
	"github.com/stet-dev/stet/internal/usable"
	"github.com/stet-dev/stet/store/sqlstore"
)

// A user that lacks a right of the store's is told so, at open or by the proof that the store can
// be written, with what to grant (S08).
func TestRightsThatAreMissing(t *testing.T) {
	t.Parallel()
	root := fresh(t, testserver.NewMariaDB(t).Addr)
	db := migrated(t, root)
	over(t, db) // it has its identity
	for name, c := range map[string]struct{ rights, opens, proves string }{
		"all that is needed": {plainRights, "", ""},
		"none":               {"", "GRANT", ""},
		"only to read":       {"SELECT", "GRANT SELECT, INSERT, UPDATE, DELETE", ""},
		"not to read":        {"INSERT, UPDATE, DELETE", "GRANT SELECT, INSERT, UPDATE, DELETE", ""},
		"not to insert":      {"SELECT, UPDATE, DELETE", "", "cannot make a record of Stet's own"},
		"not to update":      {"SELECT, INSERT, DELETE", "GRANT SELECT, INSERT, UPDATE, DELETE", ""},
		"not to delete":      {"SELECT, INSERT, UPDATE", "", "cannot delete a record of Stet's own"},
	} {
		t.Run(name, func(t *testing.T) {
			own := connect(t, user(t, db, root, "some", c.rights))
			s, err := sqlstore.Open(t.Context(), own, sqlstore.Config{Dialect: sqlstore.MySQL})
			if err != nil || c.opens != "" {
				if err == nil || c.opens == "" || !strings.Contains(err.Error(), c.opens) {
					t.Errorf("Open: %v, want %q", err, c.opens)
				}
				return
			}
			defer s.Close()
			err = usable.Prove(t.Context(), s, true)
			switch {
			case c.proves == "" && err == nil:
			case c.proves == "" || err == nil || !strings.Contains(err.Error(), c.proves) ||
				!strings.Contains(err.Error(), "GRANT SELECT, INSERT, UPDATE, DELETE"):
				t.Errorf("Prove: %v, want %q", err, c.proves)
			}
		})
	}
}

// A server that takes no writes: it is refused at open, and said by Check and by each write of a
// store that is open, with the mend (S08, S09). STATEMENT was taken, and each write failed.
func TestServersThatTakeNoWrites(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ set, reset, mend string }{
		"read only":    {"SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0", "connect to the primary"},
		"by statement": {"SET GLOBAL binlog_format = 'STATEMENT'", "SET GLOBAL binlog_format = 'MIXED'", "SET GLOBAL binlog_format = 'ROW'"},
	} {
		t.Run(name, func(t *testing.T) {
			root := fresh(t, testserver.NewMariaDB(t, "--log-bin", "--sync-binlog=1").Addr)
			admin := migrated(t, root)
			db := connect(t, user(t, admin, root, "plain", plainRights))
			s := over(t, db)
			made := create(t, s, "before")
			execute(t, admin, c.set)
			execute(t, admin, "KILL USER plain")
			eventually(t, "a write that says what to do", func() bool {
				_, err := s.Create(t.Context(), named("during"))
				return err != nil && strings.Contains(err.Error(), c.mend)
			})
			checker, _ := stet.As[stet.Checker](s)
			if err := checker.Check(t.Context()); err == nil || !strings.Contains(err.Error(), c.mend) {
				t.Errorf("Check: %v", err)
			}
			if _, err := sqlstore.Open(t.Context(), db, sqlstore.Config{Dialect: sqlstore.MySQL}); err == nil || !strings.Contains(err.Error(), c.mend) {
				t.Errorf("Open: %v", err)
			}
			if _, err := s.Get(t.Context(), made.ID); err != nil {
				t.Errorf("what is there cannot be read: %v", err)
			}
			execute(t, admin, c.reset)
			execute(t, admin, "KILL USER plain")
			eventually(t, "a write afterwards", func() bool { return usable.Prove(t.Context(), s, true) == nil })
		})
	}
}

// A copy of the database has the same names in it, and is another database (S10).
func TestBindToACopyOfTheDatabase(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"on the same server", "on another server"} {
		t.Run(where, func(t *testing.T) {
			server := testserver.NewMariaDB(t)
			home := fresh(t, server.Addr)
			db := migrated(t, home)
			s := over(t, db)
			addr := server.Addr
			if where == "on another server" {
				addr = testserver.NewMariaDB(t).Addr
			}
			var copied *sql.DB
			if addr == server.Addr {
				copied = migrated(t, fresh(t, addr))
			} else { // under the same name
				name := home[strings.LastIndex(home, "/")+1:]
				execute(t, connect(t, "root@tcp("+addr+")/"), "CREATE DATABASE "+name)
				copied = migrated(t, "root@tcp("+addr+")/"+name)
			}
			var id, store string
			if err := db.QueryRow("SELECT d.id, s.id FROM stet_database d, stet_store s").Scan(&id, &store); err != nil {
				t.Fatal(err)
			}
			execute(t, copied, "UPDATE stet_database SET id = '"+id+"'")
			over(t, copied)
			execute(t, copied, "UPDATE stet_store SET id = '"+store+"'")
			binder, _ := stet.As[stet.Binder](s)
			for on, want := range map[*sql.DB]error{copied: stet.ErrForeignTx, connect(t, home): nil} {
				tx, err := on.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := binder.Bind(tx); !errors.Is(err, want) {
					t.Errorf("Bind: %v, want %v", err, want)
				}
				if err := tx.Rollback(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// The server itself keeps the numbers of new rows above those that are there (S14): a note that
// follows a counter that was set back is stored, and listed first.
func TestCountersAreNotSetBack(t *testing.T) {
	s, db := open(t)
	note := func(who string) {
		t.Helper()
		historian, _ := stet.As[stet.Historian](s)
		if err := historian.Append(t.Context(), stet.Change{Note: stet.Note{Who: who, Why: "asked", Action: "test"}}); err != nil {
			t.Fatal(err)
		}
	}
	note("first")
	note("second")
	execute(t, db, "ALTER TABLE stet_history AUTO_INCREMENT = 1")
	note("third")
	historian, _ := stet.As[stet.Historian](s)
	changes, _, err := historian.History(t.Context(), stet.HistoryQuery{})
	if err != nil || len(changes) != 3 || changes[0].Note.Who != "third" {
		t.Errorf("%+v, %v", changes, err)
	}
}
