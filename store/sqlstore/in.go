package sqlstore

import (
	"database/sql"

	"github.com/stet-dev/stet"
)

// In is [stet.Claim.In] for a [*database/sql.Tx], to whose type the compiler sees: what the claim writes from here on is part of
// tx, which has to be on the database that holds the records; it need not be of the store's own pool. The store is a
// [stet.Binder] by the same rules.
//
// SQLite locks the whole file: from its first write, and by [SQLiteDSN] from its beginning, tx makes the writes of all other keys
// wait for it, no longer than their deadlines or busy_timeout. Reads go on beside it, and duplicates of what was there before are
// answered. So keep tx short, and call nobody over the network from within it. The wait for the file heeds the context of
// BeginTx; a deferred transaction waits in its first write instead, for busy_timeout, and fails there if it has read before and
// somebody has written since.
//
// A statement that fails can make SQLite roll tx back by itself, and each statement after it would be committed alone. The
// store notices that and refuses; for the caller's own statements nobody does. Roll back after any error.
func In(claim *stet.Claim, tx *sql.Tx) error { return claim.In(tx) }
