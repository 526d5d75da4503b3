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
// the schema, Migrate changes nothing, and returns [ErrSchema] unless this one works with it.
func Migrate(ctx context.Context, db *sql.DB, d Dialect) error {
	is, err := schemaOf(ctx, db, d)
	if err != nil || is.Have >= is.Want {
		return cmp.Or(err, is.Check("sqlstore", ErrSchema))
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
		return SQLite.take(ctx, tx, "DELETE FROM stet_schema WHERE version = 0")
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
	have, _, err := version(ctx, on)
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

// version is the number of the last step that was taken, and of the oldest program that works with
// it: see [sqltext.Migration].
func version(ctx context.Context, on asker) (n, oldest int, err error) {
	err = on.QueryRowContext(ctx, "SELECT coalesce(max(version), 0), -coalesce(min(version), 0) FROM stet_schema").Scan(&n, &oldest)
	return n, oldest, err
}

// Status returns the schema's version in the database, 0 if there is none, and the version that
// this program knows. It changes nothing.
func Status(ctx context.Context, db *sql.DB, d Dialect) (have, want int, err error) {
	is, err := schemaOf(ctx, db, d)
	return is.Have, is.Want, err
}

// Check returns [ErrSchema], with what to do, unless this program works with the schema of the
// database: its own, or that of a newer program which says so. It changes nothing.
func Check(ctx context.Context, db *sql.DB, d Dialect) error {
	is, err := schemaOf(ctx, db, d)
	return cmp.Or(err, is.Check("sqlstore", ErrSchema))
}

func schemaOf(ctx context.Context, db *sql.DB, d Dialect) (is sqltext.Migration, err error) {
	if err := d.validate(); err != nil {
		return is, err
	}
	if d == Postgres {
		is, err = pgstore.Status(ctx, pgstore.SQL{On: db}, ErrSchema)
		if err != nil && !errors.Is(err, ErrSchema) {
			err = fmt.Errorf("sqlstore: %w", err)
		}
		return is, err
	}
	var tables int
	err = db.QueryRowContext(ctx, hasSchema[d]).Scan(&tables)
	if err == nil && tables > 0 {
		is.Have, is.Oldest, err = version(ctx, db)
	}
	if err != nil {
		return sqltext.Migration{}, fmt.Errorf("sqlstore: schema: %w", d.fault(err))
	}
	is.Want = len(d.steps())
	return is, nil
}

// fault returns an error of the driver as one that says what to do, if the server has said what is
// wrong.
func (d Dialect) fault(err error) error {
	if d == MySQL {
		return fault(err)
	}
	return err
}

// SQL returns the migrations as a script to be run by hand: those that come after the version have,
// which is 0 for an empty database. For Postgres it names in comments the grants that a role needs
// which uses the store and does not own it.
func (d Dialect) SQL(have int) string {
	var b strings.Builder
	begin, table, end := "BEGIN;\n", sqltext.SchemaTable+";\n", "COMMIT;\n"
	if d == MySQL { // each statement that changes the schema commits
		begin, table, end = "", createSchemaMySQL+";\n", ""
	}
	b.WriteString(begin)
	if have <= 0 {
		b.WriteString(table)
	}
	for i, step := range d.steps() {
		if i >= have {
			fmt.Fprintf(&b, "\n%s\nINSERT INTO stet_schema (version) VALUES (%d);\n", step, i+1)
		}
	}
	b.WriteString(end)
	if d == Postgres {
		b.WriteString(sqltext.PostgresGrants)
	}
	return b.String()
}

// steps are the dialect's migrations in order.
func (d Dialect) steps() []string { return sqltext.Steps(string(d)) }
