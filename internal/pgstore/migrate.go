package pgstore

import (
	"context"
	"fmt"

	"github.com/stet-dev/stet/internal/sqltext"
)

const (
	// lock makes others wait who migrate the same database; it ends with the transaction. The
	// number is "stet".
	lock       = "SELECT pg_advisory_xact_lock(1937007988)::text"
	lastSchema = "SELECT coalesce(max(version), 0)::bigint, -coalesce(min(version), 0)::bigint FROM stet_schema"
)

// elsewhere selects the schemas that have a store and to which unqualified names do not lead, and
// where these lead. A schema that they lead to is left out: another process may have migrated it
// since the table was looked for.
const elsewhere = `SELECT coalesce(string_agg(quote_ident(n.nspname), ', '), ''), current_setting('search_path') FROM pg_catalog.pg_class c
	JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = 'stet_schema' AND c.relkind = 'r' AND c.relpersistence <> 't'
		AND n.nspname <> ALL (current_schemas(true))`

var steps = sqltext.Steps("postgres")

// Status returns the schema of the database. It changes nothing. A store in a schema that the
// search_path does not lead to is an error, which wraps errSchema: another one would be made beside
// it, and be empty.
func Status(ctx context.Context, q Querier, errSchema error) (sqltext.Migration, error) {
	var n, oldest int64
	var schemas, path string
	err := each(ctx, q, sqltext.PostgresHasSchema, nil, func(rows Rows) error { return rows.Scan(&n) })
	switch {
	case err != nil:
	case n > 0:
		err = each(ctx, q, lastSchema, nil, func(rows Rows) error { return rows.Scan(&n, &oldest) })
	default:
		err = each(ctx, q, elsewhere, nil, func(rows Rows) error { return rows.Scan(&schemas, &path) })
	}
	switch {
	case err != nil:
		return sqltext.Migration{}, fmt.Errorf("schema: %w", err)
	case schemas != "":
		return sqltext.Migration{}, fmt.Errorf("%w: the store of this database is in the schema %s, and the search_path (%s) does not lead there; set search_path "+
			"in the address, or by ALTER ROLE; for a second store, run what `stet migrate sql` prints", errSchema, schemas, path)
	}
	return sqltext.Migration{Have: int(n), Oldest: int(oldest), Want: len(steps)}, nil
}

// Migrate takes all steps that are missing, in the transaction tx, which the caller commits: all of
// them or none. Any number of processes may do so at once.
func Migrate(ctx context.Context, tx Querier) error {
	run := func(sql string) error { return each(ctx, tx, sql, nil, func(Rows) error { return nil }) }
	if err := run(lock); err != nil {
		return err
	}
	if err := run(sqltext.SchemaTable); err != nil {
		return err
	}
	is, err := Status(ctx, tx, nil) // the table is there
	if err != nil {
		return err
	}
	return sqltext.Take(steps, is.Have, run)
}
