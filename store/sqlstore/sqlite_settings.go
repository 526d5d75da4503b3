package sqlstore

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

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
	path = filepath.ToSlash(filepath.Clean(path))
	if filepath.VolumeName(path) != "" && !strings.HasPrefix(path, "/") {
		path = "/" + path // file:/C:/…
	}
	u := url.URL{Path: path}
	return "file:" + u.EscapedPath() + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)" +
		"&_pragma=busy_timeout(5000)&_pragma=wal_autocheckpoint(4000)&_pragma=fullfsync(1)&_txlock=immediate"
}

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
