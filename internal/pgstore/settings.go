package pgstore

import (
	"context"
	"errors"
	"fmt"
)

const oldest = 120000 // server_version_num: MATERIALIZED

// check refuses a server, or a setting, that a promise of the store does not hold with, and says what to do.
func check(ctx context.Context, q Querier) error {
	var version int64
	var encoding, commits, isolation string
	var standby bool
	err := each(ctx, q, `SELECT current_setting('server_version_num')::bigint, current_setting('server_encoding'),
		current_setting('synchronous_commit'), current_setting('default_transaction_isolation'), pg_is_in_recovery()`, nil,
		func(rows Rows) error { return rows.Scan(&version, &encoding, &commits, &isolation, &standby) })
	switch {
	case err != nil:
		return err
	case version < oldest:
		return fmt.Errorf("the server is Postgres %d; 12 or newer is needed", version/10000)
	case encoding != "UTF8":
		return fmt.Errorf("the database's encoding is %s and has to be UTF8: another one refuses names; "+
			"CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0", encoding)
	case commits == "off":
		return errors.New("synchronous_commit is off: what was acknowledged could be lost in a crash; " +
			"set it to on or local, for this role or in the DSN")
	case standby:
		return errors.New("the server is a standby, which takes no writes")
	case isolation == "serializable" || isolation == "repeatable read":
		return fmt.Errorf("default_transaction_isolation is %q: a write that waited for another would fail instead of saying "+
			"what it found; set it to 'read committed' for this role or in the DSN", isolation)
	}
	return nil
}
