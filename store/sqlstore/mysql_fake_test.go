package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stet-dev/stet/internal/groupcommit"
)

// scripted is a server whose answers a test writes.
type scripted struct {
	exec  func(statement string) error
	query func(statement string) []driver.Value // a row
	opens atomic.Int64
}

func (f *scripted) Connect(context.Context) (driver.Conn, error) {
	f.opens.Add(1)
	return &scriptedConn{f}, nil
}
func (f *scripted) Driver() driver.Driver { return nil }

type scriptedConn struct{ *scripted }

func (c *scriptedConn) Prepare(string) (driver.Stmt, error) {
	return nil, errors.New("it prepares nothing")
}
func (c *scriptedConn) Begin() (driver.Tx, error) { return nil, errors.New("it has no transactions") }
func (c *scriptedConn) Close() error              { return nil }
func (c *scriptedConn) IsValid() bool             { return true }

func (c *scriptedConn) ExecContext(_ context.Context, statement string, _ []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(0), c.exec(statement)
}

func (c *scriptedConn) QueryContext(_ context.Context, statement string, _ []driver.NamedValue) (driver.Rows, error) {
	return &scriptedRows{c.query(statement)}, nil
}

type scriptedRows struct{ row []driver.Value }

func (r *scriptedRows) Columns() []string { return make([]string, len(r.row)) }
func (r *scriptedRows) Close() error      { return nil }

func (r *scriptedRows) Next(dest []driver.Value) error {
	if r.row == nil {
		return io.EOF
	}
	copy(dest, r.row)
	r.row = nil
	return nil
}

// answer is an error with a number, as drivers have them.
type answer struct{ Number uint16 }

func (a *answer) Error() string { return "an answer" }

// lanesOn returns lanes of one connection.
func lanesOn(t *testing.T, f *scripted) *lanes {
	db := sql.OpenDB(f)
	t.Cleanup(func() { _ = db.Close() })
	l := newLanes(db, 1, func(context.Context, *lane) error { return nil })
	t.Cleanup(l.close)
	return l
}

// A COMMIT that has no answer may have happened, and may not: it is an error, and the connection is
// not used again. That a COMMIT was undone by a deadlock, the server says for certain (S13).
func TestACommitWithoutAnAnswerIsNoYes(t *testing.T) {
	for name, c := range map[string]struct {
		commit  error
		undone  bool
		another bool // connection for the next call
	}{
		"no answer":    {io.ErrUnexpectedEOF, false, true},
		"an error":     {&answer{1180}, false, true},
		"deadlock":     {&answer{mysqlDeadlock}, true, false},
		"it committed": {nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := &scripted{exec: func(statement string) error {
				if statement == "COMMIT" {
					return c.commit
				}
				return nil
			}}
			l := lanesOn(t, f)
			err := l.with(t.Context(), func(c *lane) error { return transact(t.Context(), c, func() error { return nil }) })
			if (err != nil) != (c.commit != nil) || errors.Is(err, groupcommit.ErrNothing) {
				t.Errorf("got %v", err)
			}
			if undone := settlesMySQL(err) == groupcommit.Contended; err != nil && undone != c.undone {
				t.Errorf("%v is tried again: %v", err, undone)
			}
			if err := l.with(t.Context(), func(*lane) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if another := f.opens.Load() == 2; another != c.another {
				t.Errorf("%d connections", f.opens.Load())
			}
		})
	}
}

// A connection whose ROLLBACK failed is in a transaction still, perhaps: what the next caller wrote
// would be undone with it (S13).
func TestAConnectionWhoseRollbackFailedIsGivenUp(t *testing.T) {
	failed := &serverError{mysqlDuplicate}
	for name, rollback := range map[string]error{"refused": &answer{1290}, "answered": nil} {
		t.Run(name, func(t *testing.T) {
			f := &scripted{exec: func(statement string) error {
				if statement == "ROLLBACK" {
					return rollback
				}
				return nil
			}}
			l := lanesOn(t, f)
			err := l.with(t.Context(), func(c *lane) error { return transact(t.Context(), c, func() error { return failed }) })
			if !errors.Is(err, failed) {
				t.Errorf("got %v", err)
			}
			if err := l.with(t.Context(), func(*lane) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if another := f.opens.Load() == 2; another != (rollback != nil) {
				t.Errorf("%d connections", f.opens.Load())
			}
		})
	}
}

// Servers that speak MySQL's language and are something else are refused in words, before they are
// asked what they may not know.
func TestOtherServersAreRefused(t *testing.T) {
	for version, c := range map[string]struct{ comment, says string }{
		"8.0.11-TiDB-v7.5.0":           {"TiDB Server (Apache License 2.0)", "TiDB"},
		"5.7.32":                       {"SingleStoreDB source distribution (compatible; MySQL Enterprise & MySQL Commercial)", "SingleStore"},
		"8.0.30-Vitess":                {"", "Vitess"},
		"8.0.34-PlanetScale":           {"Version: 19.0.1", "Vitess"},
		"5.7.25-OceanBase_CE-v4.2.1.0": {"OceanBase_CE 4.2.1.0", "OceanBase"},
		"8.0.33":                       {"StarRocks version 3.2.0", "StarRocks"},
		"8.0.36":                       {"MySQL Community Server - GPL", ""},
		"10.11.6-MariaDB-0+deb12u1":    {"Debian 12", ""},
		"8.0.mysql_aurora.3.05.2":      {"Source distribution", ""},
	} {
		asked := 0
		f := &scripted{query: func(statement string) []driver.Value {
			if asked++; strings.Contains(statement, "version_comment") {
				return []driver.Value{version, c.comment}
			}
			return nil
		}}
		db := sql.OpenDB(f)
		_, err := readMySQLServer(t.Context(), db)
		if refused := err != nil && strings.Contains(err.Error(), "the server is "+c.says+" ("); refused != (c.says != "") || refused && asked != 1 {
			t.Errorf("%s, %s: %v, after %d questions", version, c.comment, err, asked)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
