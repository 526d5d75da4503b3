package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/stet-dev/stet/internal/pgstore"
	"github.com/stet-dev/stet/internal/sqltext"
	"github.com/stet-dev/stet/internal/sqltx"
)

// ErrSchema is returned when the database's schema is not the one that this program works with. The
// error that wraps it says what to do.
var ErrSchema = errors.New("sqlstore: the schema does not fit")

// Migrate brings the schema up to date, if it is not yet. Any number of processes may call it at
// once. In SQLite and Postgres it takes all steps that are missing, or none. MySQL cannot undo
// changes of a schema; there the next call repeats a step that failed. If a newer program has made
// the schema, Migrate returns [ErrSchema].
func Migrate(ctx context.Context, db *sql.DB, d Dialect) error {
	have, want, err := Status(ctx, db, d)
	if err != nil || have >= want {
		return cmp.Or(err, pgstore.CheckSchema("sqlstore", ErrSchema, have, want))
	}
	switch d {
	case Postgres:
		err = sqltx.Do(ctx, db, nil, func(tx *sql.Tx) error { return pgstore.Migrate(ctx, pgstore.SQL{On: tx}) })
	case MySQL:
		err = migrateMySQL(ctx, db)
	case SQLite:
		err = migrateSQLite(ctx, db)
	}
	return wrap("migrate", err)
}

// migrateSQLite takes the steps that are missing in one transaction, whose first statement changes
// nothing and takes the lock: another process waits for it, and then finds the steps taken.
func migrateSQLite(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, sqltext.SchemaTable); err != nil {
		return err
	}
	return sqltx.Do(ctx, db, nil, func(tx *sql.Tx) error {
		return SQLite.take(ctx, tx, "DELETE FROM stet_schema WHERE version < 1")
	})
}

// take has a connection carry out a statement, and then the steps that are missing.
func (d Dialect) take(ctx context.Context, on asker, before string) error {
	run := func(statement string) error {
		_, err := on.ExecContext(ctx, statement)
		return err
	}
	if err := run(before); err != nil {
		return err
	}
	have, err := version(ctx, on)
	if err != nil {
		return err
	}
	return sqltext.Take(d.steps(), have, run)
}

// asker is a connection, a pool or a transaction that is asked for one row.
type asker interface {
	querier
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// version is the number of the last step that was taken.
func version(ctx context.Context, on asker) (n int, err error) {
	err = on.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM stet_schema").Scan(&n)
	return n, err
}

// Status returns the schema's version in the database, 0 if there is none, and the version that
// this program needs. It changes nothing.
func Status(ctx context.Context, db *sql.DB, d Dialect) (have, want int, err error) {
	if err := d.validate(); err != nil {
		return 0, 0, err
	}
	var tables int
	err = db.QueryRowContext(ctx, hasSchema[d]).Scan(&tables)
	if err == nil && tables > 0 {
		have, err = version(ctx, db)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("sqlstore: schema: %w", d.fault(ctx, err))
	}
	return have, len(d.steps()), nil
}

// fault returns an error of the driver as one that says what to do, if the server has said what is
// wrong.
func (d Dialect) fault(ctx context.Context, err error) error {
	switch d {
	case MySQL:
		return fault(err)
	case Postgres:
		return pgstore.Fault(ctx, err)
	case SQLite:
	}
	return err
}

// SQL returns the migrations as a script to be run by hand on an empty database.
func (d Dialect) SQL() string {
	var b strings.Builder
	begin, end := "BEGIN;\n"+sqltext.SchemaTable+";\n", "COMMIT;\n"
	if d == MySQL { // each statement that changes the schema commits
		begin, end = createSchemaMySQL+";\n", ""
	}
	b.WriteString(begin)
	for i, step := range d.steps() {
		fmt.Fprintf(&b, "\n%s\nINSERT INTO stet_schema (version) VALUES (%d);\n", step, i+1)
	}
	b.WriteString(end)
	return b.String()
}

// steps are the dialect's migrations in order.
func (d Dialect) steps() []string { return sqltext.Steps(string(d)) }
