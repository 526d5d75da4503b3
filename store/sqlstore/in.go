package sqlstore

import (
	"database/sql"

	"github.com/stet-dev/stet"
)

// In is [stet.Claim.In] for a [*database/sql.Tx], checked by the compiler: from here on the claim
// writes within tx. The transaction must be on the database that holds the records; it may come
// from another pool.
//
// SQLite locks the whole file for a writing transaction: with [SQLiteDSN] from its beginning,
// otherwise from its first write. Writes of all other keys wait for it, up to their deadlines or
// busy_timeout. Reads go on, and duplicates of committed records are answered. Keep tx short, and
// make no network calls within it. The wait for the file ends with the context of BeginTx. A
// deferred transaction waits in its first write instead, for busy_timeout, and fails if it has read
// before and another transaction has written since.
//
// A statement that fails can make SQLite roll back tx by itself; each statement after that would
// commit alone. The store detects this and refuses its own writes, but it cannot detect it for the
// caller's statements. Roll back after any error.
func In(claim *stet.Claim, tx *sql.Tx) error { return claim.In(tx) }
