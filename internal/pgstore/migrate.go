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
	lastSchema = "SELECT coalesce(max(version), 0)::bigint FROM stet_schema"
)

var steps = sqltext.Steps("postgres")

// Status returns the number of the last step the database has taken, 0 for none, and of the last
// one this program knows. It changes nothing.
func Status(ctx context.Context, q Querier) (have, want int, err error) {
	var n int64
	scan := func(rows Rows) error { return rows.Scan(&n) }
	err = each(ctx, q, sqltext.PostgresHasSchema, nil, scan)
	if err == nil && n > 0 {
		err = each(ctx, q, lastSchema, nil, scan)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("schema: %w", err)
	}
	return int(n), len(steps), nil
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
	have, _, err := Status(ctx, tx)
	if err != nil {
		return err
	}
	return sqltext.Take(steps, have, run)
}

// CheckSchema returns an error of the package pkg, which wraps errSchema and says what to do,
// unless the database has the schema that the program wants.
func CheckSchema(pkg string, errSchema error, have, want int) error {
	switch {
	case have > want:
		return fmt.Errorf("%w: a newer program has made it version %d; this one knows %d", errSchema, have, want)
	case have < want:
		return fmt.Errorf("%w: it has version %d, and %d is needed; run `stet migrate up`, or %s.Migrate", errSchema, have, want, pkg)
	}
	return nil
}
