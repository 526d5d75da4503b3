// Package sqlstore keeps records in a table of an SQL database, through database/sql and a driver
// of the program's choice.
//
// SQLite serves one host: any number of goroutines, and several processes on the same file.
// Acknowledged writes survive kill -9 and power loss, if the disk keeps what it has synced.
// Concurrent writes share a transaction: while one is being synced, the next gathers. A lone caller
// does not wait for company, and reads go on beside the writes.
//
//	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN("stet.db")) // modernc.org/sqlite
//	...
//	err = sqlstore.Migrate(ctx, db, sqlstore.SQLite)
//	...
//	store, err := sqlstore.Open(ctx, db, sqlstore.Config{Dialect: sqlstore.SQLite})
//
// MySQL and MariaDB serve several hosts. The server's clock counts, and Open checks that the server
// syncs what it commits. A read does not wait for a transaction that changes the record. A write to
// a row that another transaction holds is tried again until the call's deadline, and delays no
// other write. If many callers write at once, their writes share statements.
//
// Postgres serves any number of processes on any number of hosts, with the driver of pgx or another
// one. Package store/pgxstore is the same store on a pool of pgx. There a caller that waits for a
// record is notified of changes; here it polls.
//
// Operators can read the view stet_keys:
//
//	$ sqlite3 stet.db "SELECT key, status, created_at FROM stet_keys WHERE state = 'unknown'"
//
// Do not change rows by hand. Each row carries checksums; a row that was changed by hand, by a
// failing disk or by a newer program is refused with [stet.ErrCorrupt], and the other rows are not
// affected.
package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/bounds"
	"github.com/stet-dev/stet/internal/pgstore"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/tablestore"
)

// Store is a [stet.Store] in a table. It is safe for concurrent use, and so are several Stores on
// one database, in one process or in several.
//
// A method returns when its context ends, also while it waits for its turn, for another process or
// for a server. The one exception is a lone write to SQLite, which waits for the disk to answer.
type Store struct {
	database
}

var _ stet.Store = (*Store)(nil)

// Unwrap returns the store of the dialect, so that [stet.As] finds the abilities that not every
// dialect has.
func (s *Store) Unwrap() stet.Store { return s.database }

// database is a [Store] in one dialect.
type database interface {
	stet.Store
	stet.Lister
	stet.Counter
	io.Closer
}

// Config configures a [Store]. Only Dialect is required.
type Config struct {
	// Dialect is the kind of database.
	Dialect Dialect
	// Path is the name of SQLite's file as the program knows it, where that is a symbolic link. The
	// link is noticed if it is turned to another file while the store is open, or before it is
	// opened again: then writes are [stet.ErrForeign]. Default: the file's own path.
	Path string
	// Clock is the clock of this host, for a database that has none of its own (SQLite). Default
	// [time.Now]. If it is set back, the store's time stands still, for all processes that have the
	// file open, but for the last second.
	Clock func() time.Time
	// Readers is the number of connections that look up records, beside those that write and those
	// that list. Default [DefaultReaders]. Postgres ignores it.
	Readers int
	// MaxLog is the size in bytes of SQLite's write-ahead log above which a write truncates the
	// log. The write then waits for the reads that use the log, at most a tenth of a second each
	// time. A read that takes minutes keeps the log for as long, so that the log may exceed MaxLog.
	// Default 32 MiB.
	MaxLog int64
	// LockTimeout bounds how long a store bound to a transaction waits for a row that another
	// transaction holds (Postgres). It sets lock_timeout for the rest of the transaction, in whole
	// milliseconds. Default 0: the session's setting counts.
	LockTimeout time.Duration
	// AllowVolatile accepts a server (Postgres, MySQL) whose settings allow it to lose acknowledged
	// writes in a crash. A key that is lost may run again. Default false: Open and Check refuse
	// such a server with [stet.ErrVolatile].
	AllowVolatile bool
}

var configBounds = bounds.For[Config](
	bounds.Number("Readers", 1, bounds.Many).OrDefault(),
	bounds.Number("MaxLog", 1, bounds.Huge).OrDefault(),
	bounds.Duration("LockTimeout", bounds.Short, pgstore.MaxLockTimeout).Or("0 for the session's", 0),
)

// DefaultReaders is the default of [Config].Readers.
const DefaultReaders = 4

// ErrClosed is returned when a store is used after Close.
var ErrClosed = errors.New("sqlstore: the store is closed")

// Open returns a store on a database that [Migrate] has prepared. It checks the settings that the
// store's promises depend on; an error says which setting to change.
//
// The caller owns db, may use it for other tables, and closes it after the store. A limit of its
// pool (SetMaxOpenConns) must leave room for the connections that the store keeps: Readers, and
// those that write, which is one for SQLite and up to 20 for MySQL. If it allows fewer, a store on
// MySQL keeps half of them, and calls wait for each other. One that has had none by its deadline is
// [stet.ErrBusy].
func Open(ctx context.Context, db *sql.DB, c Config) (*Store, error) {
	if err := configBounds.Check(&c); err != nil {
		return nil, err
	}
	c.Readers, c.MaxLog = cmp.Or(c.Readers, DefaultReaders), cmp.Or(c.MaxLog, defaultMaxLog)
	if err := c.validate(db); err != nil {
		return nil, err
	}
	err := Check(ctx, db, c.Dialect)
	if err != nil {
		return nil, err
	}
	var d database
	switch c.Dialect {
	case SQLite:
		d, err = openSQLite(ctx, db, c)
	case MySQL:
		d, err = openMySQL(ctx, db, c)
	case Postgres:
		d, err = openPostgres(ctx, db, c)
	default:
		panic("sqlstore: no dialect: " + string(c.Dialect))
	}
	if err != nil {
		return nil, wrap("open", err)
	}
	return &Store{d}, nil
}

func (c Config) validate(db *sql.DB) error {
	if err := c.Dialect.validate(); err != nil {
		return err
	}
	if c.Dialect == Postgres { // it holds on to no connection
		return nil
	}
	least, what := c.Readers+2, "the one that writes, those that read, and one more"
	if c.Dialect == MySQL { // the store's calls wait for each other
		least, what = 2, "one for reads and writes, and one for lists"
	}
	if limit := db.Stats().MaxOpenConnections; limit > 0 && limit < least {
		return fmt.Errorf("sqlstore: the pool is limited to %d connections; SetMaxOpenConns has to allow %d: %s", limit, least, what)
	}
	return nil
}

func listing(r *sqltext.Reader) tablestore.Listing {
	return tablestore.Listing{Reading: tablestore.Reading{Reader: r, Around: around}}
}

func around(ctx context.Context, op string, call func(context.Context) error) error {
	return wrap(op, call(ctx))
}

func wrap(op string, err error) error { return tablestore.Wrap("sqlstore", op, err) }
