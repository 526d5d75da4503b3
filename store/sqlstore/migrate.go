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

// Migrate brings the schema up to date step by step, if it is not yet. Any number of processes may
// call it at once. Each step is a transaction, so that the steps before a failure stay. MySQL
// cannot undo changes of a schema; there the next call repeats a step that failed. If a newer
// program has made the schema, Migrate returns [ErrSchema].
func Migrate(ctx context.Context, db *sql.DB, d Dialect) error {
	have, want, err := Status(ctx, db, d)
	if err != nil || have >= want {
		return cmp.Or(err, pgstore.CheckSchema("sqlstore", ErrSchema, have, want))
	}
	switch d {
	case Postgres:
		err = migratePostgres(ctx, db)
	case MySQL:
		err = migrateMySQL(ctx, db)
	case SQLite:
		err = migrateSQLite(ctx, db)
	}
	return wrap("migrate", err)
}

// migrateSQLite takes each step, if no other process has. The step's number is written first: it is
// a lock. Another process waits for it, and then finds the number taken.
func migrateSQLite(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, sqltext.SchemaTable); err != nil {
		return err
	}
	for i, step := range SQLite.steps() {
		err := sqltx.Do(ctx, db, nil, func(tx *sql.Tx) error {
			res, err := tx.ExecContext(ctx, "INSERT INTO stet_schema (version) VALUES (?) ON CONFLICT DO NOTHING", i+1)
			if err != nil {
				return err
			}
			if n, err := res.RowsAffected(); err != nil || n == 0 {
				return err
			}
			_, err = tx.ExecContext(ctx, step)
			return err
		})
		if err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}

// Status returns the schema's version in the database, 0 if there is none, and the version that
// this program needs. It changes nothing.
func Status(ctx context.Context, db *sql.DB, d Dialect) (have, want int, err error) {
	if err := d.validate(); err != nil {
		return 0, 0, err
	}
	var tables int
	if err := db.QueryRowContext(ctx, hasSchema[d]).Scan(&tables); err != nil {
		return 0, 0, fmt.Errorf("sqlstore: schema: %w", d.fault(ctx, err))
	}
	if tables > 0 {
		if err := db.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM stet_schema").Scan(&have); err != nil {
			return 0, 0, fmt.Errorf("sqlstore: schema: %w", d.fault(ctx, err))
		}
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

func checkSchema(ctx context.Context, db *sql.DB, d Dialect) error {
	have, want, err := Status(ctx, db, d)
	return cmp.Or(err, pgstore.CheckSchema("sqlstore", ErrSchema, have, want))
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
