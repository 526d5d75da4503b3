package sqlstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/stet-dev/stet"
	"github.com/stet-dev/stet/internal/sqltext"
)

// SQLiteDSN returns the data source name for the driver modernc.org/sqlite ("sqlite") and the file
// at path:
//
//	journal_mode(WAL)         readers and the writer do not wait for each other; required
//	synchronous(FULL)         a commit returns when it is on the disk; required, or EXTRA
//	busy_timeout(5000)        wait for another process's transaction, in milliseconds; required to
//	                          be above 0. The deadline of a call ends the wait as well
//	wal_autocheckpoint(4000)  move 16 MB at a time from the log into the table, not 4: pages
//	                          change more than once meanwhile
//	fullfsync(1)              macOS only: sync through the cache of the disk
//	_txlock=immediate         for the caller's own transactions on the same database, which would
//	                          otherwise fail with SQLITE_BUSY if they read before they write. The
//	                          store's own always begin so
//
// With another driver, set the same by its own means. The settings belong to a connection, so that
// they have to stand in the data source name: a PRAGMA sent through the pool reaches one connection
// and not the next. [Open] checks them.
func SQLiteDSN(path string) string {
	return fileURI(path) + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)" +
		"&_pragma=busy_timeout(5000)&_pragma=wal_autocheckpoint(4000)&_pragma=fullfsync(1)&_txlock=immediate"
}

// The results of SQLite that say what is wrong.
const (
	sqliteError      = 1    // SQLITE_ERROR
	sqliteBusy       = 5    // SQLITE_BUSY
	sqliteReadOnly   = 8    // SQLITE_READONLY
	sqliteFull       = 13   // SQLITE_FULL
	tooBig           = 18   // SQLITE_TOOBIG
	sqliteConstraint = 19   // SQLITE_CONSTRAINT
	sqliteNull       = 1299 // SQLITE_CONSTRAINT_NOTNULL
)

// faultSQLite names why SQLite did not carry out a statement.
func faultSQLite(err error) error {
	switch {
	case err == nil:
		return nil
	case errorNumber(err)&0xff == tooBig:
		return fmt.Errorf("%w: %w", stet.ErrRefused, err)
	case errorNumber(err)&0xff == sqliteFull:
		return fmt.Errorf("%w: the disk of the database is full, make room on it: %w", stet.ErrFull, err)
	case errorNumber(err)&0xff == sqliteReadOnly:
		return fmt.Errorf("the database cannot be written; give this program's user the right to write the file and its directory, "+
			"and mount the file system read-write: %w", err)
	}
	return err
}

// busySQLite is the error of a transaction that did not begin.
func busySQLite(err error) error {
	if errorNumber(err)&0xff == sqliteBusy {
		return fmt.Errorf("%w: another program holds the file: %w", stet.ErrBusy, err)
	}
	return faultSQLite(err)
}

// Sizes implements [stet.Sizer]: a row has a billion bytes at most.
func (s *sqlite) Sizes() stet.Sizes { return stet.Sizes{Body: 1_000_000_000 - 1<<20} }

// settings are what the promises of the store rest on.
var settings = []struct {
	name, want, why string
	ok              func(have string) bool
}{
	{"journal_mode", "WAL", "without it readers and the writer wait for each other, and a database in memory would forget",
		func(have string) bool { return strings.EqualFold(have, "wal") }},
	{"synchronous", "FULL", "without it what was acknowledged can be lost with the power",
		func(have string) bool { return have == "2" || have == "3" }}, // FULL, EXTRA
	{"busy_timeout", "5000", "without it another process's transaction is an error instead of a short wait",
		func(have string) bool { return have != "0" }},
	{"encoding", "'UTF-8'", "another one changes the bytes of names",
		func(have string) bool { return have == "UTF-8" }},
}

// checkConn refuses a connection that is not set up as [SQLiteDSN] would.
func checkConn(ctx context.Context, c *lane) error {
	for _, s := range settings {
		var have string
		if err := c.raw.QueryRowContext(ctx, "PRAGMA "+s.name).Scan(&have); err != nil {
			return fmt.Errorf("PRAGMA %s: %w", s.name, err)
		}
		if !s.ok(have) {
			return fmt.Errorf("%s is %s and has to be %s: %s; open the database by SQLiteDSN, or put PRAGMA %s = %s into its data source name",
				s.name, have, s.want, s.why, s.name, s.want)
		}
	}
	return nil
}

// checkTables refuses tables that lack a column: what the schema's version says of them is not so.
func checkTables(ctx context.Context, c *lane) error {
	for _, everyColumn := range []string{sqltext.SQLiteGet, sqltext.SQLiteNote} {
		if _, err := c.statement(ctx, everyColumn); err != nil {
			return fmt.Errorf("%w: the tables are not those that its version has: %w", ErrSchema, err)
		}
	}
	return nil
}
