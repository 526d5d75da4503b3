package sqlstore

import (
	"database/sql"

	"github.com/stet-dev/stet"
)

// In is [stet.Claim.In] for a [*database/sql.Tx]: what the claim writes from here on is part of tx, which has to be on the
// database that holds the records. The compiler sees to its type.
func In(claim *stet.Claim, tx *sql.Tx) error { return claim.In(tx) }
