package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/localdisk"
	"github.com/stet-dev/stet/internal/sqltext"
)

// SQLite itself knows whether anybody has the file open: each connection in WAL mode holds a shared
// lock on it from its first read until it is closed. So do those of every release of this package,
// and of other programs; within one process SQLite keeps count by itself.

// outside opens connections beside the pool, which is the caller's.
type outside struct {
	from driver.Driver
	name string
}

func (o outside) Connect(context.Context) (driver.Conn, error) { return o.from.Open(o.name) }
func (o outside) Driver() driver.Driver                        { return o.from }

// safely are the settings of a connection that may be the last to be closed, and then moves the log
// into the file.
var safely = []string{"PRAGMA synchronous = FULL", "PRAGMA fullfsync = 1", "PRAGMA checkpoint_fullfsync = 1"}

// beside opens one connection to file outside of the pool db. It carries out statements first: some
// of those of safely read the file.
func beside(ctx context.Context, db *sql.DB, file string, statements ...string) (conn *sql.Conn, closeIt func(), err error) {
	own := sql.OpenDB(outside{db.Driver(), fileURI(file)})
	closeIt = func() { _ = own.Close() }
	if conn, err = own.Conn(ctx); err == nil {
		closeIt = func() { _ = conn.Close(); _ = own.Close() }
	}
	for _, s := range append(statements, safely...) {
		if err == nil {
			_, err = conn.ExecContext(ctx, s)
		}
	}
	if err != nil {
		closeIt()
	}
	return conn, closeIt, err
}

// left returns the runs that are recorded in file, if that can be locked against everybody else:
// then none of their holders is there any more. Where it cannot be proven, it returns nil.
func left(ctx context.Context, db *sql.DB, file string) (heads []stet.Head) {
	if db.Driver() == nil || file == "" || !localdisk.Has(file) || !retire(ctx, db) {
		return nil
	}
	conn, closeIt, err := beside(ctx, db, file, "PRAGMA busy_timeout = 0", "PRAGMA locking_mode = EXCLUSIVE")
	if err != nil {
		return nil
	}
	defer closeIt()
	var tables int // the first read takes the lock
	var mode string
	if conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&tables) != nil ||
		conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode) != nil || !strings.EqualFold(mode, "wal") {
		return nil
	}
	farthest := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() // all that will ever be due
	r := &sqltext.Reader{Dialect: sqltext.SQLiteDialect, Clock: func() int64 { return farthest },
		Run: func(ctx context.Context, statement string, args []any, row func(sqltext.Scanner) error) error {
			rows, err := conn.QueryContext(ctx, statement, args...)
			return sqltext.EachRow(rows, err, row)
		}}
	for after := ""; ; {
		page, next, err := r.Due(ctx, stet.Query{States: []stet.State{stet.Running}, After: after, Limit: stet.MaxLimit})
		if err != nil {
			return nil
		}
		heads = append(heads, slices.DeleteFunc(page, func(h stet.Head) bool { return h.Cause == stet.CauseSuspended })...)
		if after = next; after == "" {
			return heads
		}
	}
}

// retire closes the connections that rest in the pool, and reports whether it has none any more.
func retire(ctx context.Context, db *sql.DB) bool {
	for db.Stats().InUse == 0 && db.Stats().Idle > 0 {
		conn, err := db.Conn(ctx)
		if err != nil {
			return false
		}
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		_ = conn.Close()
	}
	return db.Stats().OpenConnections == 0
}

// present holds the file open for as long as the store is. Connections of the pool may be closed
// and opened again, and in between no other process may believe that this one is gone.
func present(ctx context.Context, db *sql.DB, file string) (closeIt func(), err error) {
	if db.Driver() == nil || file == "" {
		return func() {}, nil
	}
	conn, closeIt, err := beside(ctx, db, file, "PRAGMA busy_timeout = 5000")
	if err != nil {
		return nil, err
	}
	var tables int
	if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&tables); err != nil {
		closeIt()
		return nil, err
	}
	return closeIt, nil
}

// fileURI names a file as SQLite and its drivers do.
func fileURI(path string) string {
	path = filepath.ToSlash(filepath.Clean(path))
	if filepath.VolumeName(path) != "" && !strings.HasPrefix(path, "/") {
		path = "/" + path // file:/C:/…
	}
	u := url.URL{Path: path}
	return "file:" + u.EscapedPath()
}

// Left implements [stet.Heir].
func (s *sqlite) Left() []stet.Head { return s.left }
