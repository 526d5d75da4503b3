// Package sqlstore keeps records in a table of an SQL database, through database/sql and the driver of the caller's choice.
//
// SQLite is for one host: any number of goroutines, and several processes on the same file. What was acknowledged survives
// kill -9 and power loss, as far as the disk keeps what it synced. Writes are committed in groups: while one transaction is
// being synced, the next gathers, so that concurrent callers share the wait for the disk and a lone one never waits for
// company. Reads go on beside them.
//
//	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN("stet.db")) // modernc.org/sqlite
//	...
//	err = sqlstore.Migrate(ctx, db, sqlstore.SQLite)
//	...
//	store, err := sqlstore.Open(ctx, db, sqlstore.Config{Dialect: sqlstore.SQLite})
//
// MySQL and MariaDB are for several hosts. The server is the clock, and Open checks that it syncs what it commits. Records are
// found without waiting for whoever changes them; a row that somebody holds is tried again until the call's deadline, beside
// its neighbours and not before them. Writes of many concurrent callers share statements, in groups; those of a few do not.
//
// Postgres is for any number of processes on any number of hosts; Dialect Postgres, with the driver of pgx or another. Package
// store/pgxstore is the same store on a pool of pgx: there those who wait are told of changes, and here they look.
//
// For people there is the view stet_keys:
//
//	$ sqlite3 stet.db "SELECT key, state, status, created_at FROM stet_keys WHERE state = 'unknown'"
//
// Rows are for reading: each carries checksums, and one that was changed by hand, by a failing disk or by a newer program is
// refused with [stet.ErrCorrupt], alone.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/tablestore"
)

// Store is a [stet.Store] in a table. It is safe for concurrent use, and so are several of them on one database, in one
// process or in several.
//
// Every verb heeds its context's deadline while it waits for its turn, for another process or for a server, with one exception:
// who is writing a group to SQLite is held by a disk that does not answer.
type Store struct {
	database
}

// Unwrap returns what keeps the records. It has the abilities that not every dialect has: see [stet.As].
func (s *Store) Unwrap() stet.Store { return s.database }

// database is a [Store] in one dialect.
type database interface {
	stet.Store
	stet.Lister
	stet.Counter
	stet.Closer
}

var (
	_ stet.Store   = (*Store)(nil)
	_ stet.Lister  = (*Store)(nil)
	_ stet.Counter = (*Store)(nil)
	_ stet.Closer  = (*Store)(nil)
)

// Config is how a [Store] works. Only Dialect is required.
type Config struct {
	Dialect Dialect
	// Clock is the store's clock where the database has none of its own: SQLite. Default [time.Now]. Within a process the
	// store's time never goes back, whatever the clock does.
	Clock func() time.Time
	// Readers is how many connections look up records, beside those that write and those that list. Default 4.
	Readers int
	// MaxLog is how many bytes the log of SQLite may take before a write makes it begin anew, and waits for that, a tenth of a second
	// at most each time, until those who read it have ended. It is no hard limit: a read of minutes keeps the log for minutes.
	// Default [DefaultMaxLog].
	MaxLog int64
	// LockTimeout bounds how long a store bound to a transaction waits for a row that another transaction holds (Postgres). It
	// is a setting of the transaction from then on (lock_timeout). 0 leaves the setting as it is.
	LockTimeout time.Duration
	// AllowVolatile takes a server (Postgres, MySQL) that may lose in a crash what it acknowledged, because of a setting: where a
	// forgotten key may run again. Otherwise such a server is [stet.ErrVolatile], at Open and at Check.
	AllowVolatile bool
}

// DefaultReaders is used where [Config] does not say.
const DefaultReaders = 4

// ErrClosed: the store was used after Close.
var ErrClosed = errors.New("sqlstore: the store is closed")

// Open returns a store on a database that [Migrate] has prepared. It checks the settings that the store's promises rest on,
// and an error says what to set. The caller owns db and closes it after the store; it may use db for tables of its own, and
// must leave room in its pool (SetMaxOpenConns) for the connections the store holds on to: Readers, and those that write, one
// for SQLite and up to 20 for MySQL.
func Open(ctx context.Context, db *sql.DB, c Config) (*Store, error) {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Readers == 0 {
		c.Readers = DefaultReaders
	}
	if c.MaxLog == 0 {
		c.MaxLog = DefaultMaxLog
	}
	if err := c.validate(db); err != nil {
		return nil, err
	}
	if err := checkSchema(ctx, db, c.Dialect); err != nil {
		return nil, err
	}
	var d database
	var err error
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
	if c.LockTimeout < 0 {
		return fmt.Errorf("sqlstore: config: LockTimeout is %s", c.LockTimeout)
	}
	if c.MaxLog < 0 {
		return fmt.Errorf("sqlstore: config: MaxLog is %d", c.MaxLog)
	}
	if c.Dialect == Postgres { // it holds on to no connection
		return nil
	}
	if c.Readers < 1 {
		return fmt.Errorf("sqlstore: config: Readers is %d; at least one connection has to read", c.Readers)
	}
	writers := 1
	if c.Dialect == MySQL {
		writers = mysqlWriters
	}
	if limit, need := db.Stats().MaxOpenConnections, c.Readers+writers+1; limit > 0 && limit < need {
		return fmt.Errorf("sqlstore: the pool is limited to %d connections; SetMaxOpenConns has to allow %d: %d that write, %d that read, and one more",
			limit, need, writers, c.Readers)
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
