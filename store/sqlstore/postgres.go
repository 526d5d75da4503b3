package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/stet-dev/stet/internal/pgstore"
)

func openPostgres(ctx context.Context, db *sql.DB, c Config) (*pgstore.Store, error) {
	return pgstore.Open(ctx, postgres{db}, pgstore.Config{Package: "sqlstore", Closed: ErrClosed, LockTimeout: c.LockTimeout, Volatile: c.AllowVolatile,
		Bind: func(tx any) (pgstore.Querier, map[string]any, bool) {
			t, ok := tx.(*sql.Tx)
			return postgres{t}, nil, ok && t != nil
		}})
}

// migratePostgres takes the steps that are missing, in one transaction.
func migratePostgres(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := pgstore.Migrate(ctx, postgres{tx}); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// postgres is a pool or a transaction of database/sql.
type postgres struct {
	sql interface {
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}
}

func (q postgres) Query(ctx context.Context, query string, args ...any) (pgstore.Rows, error) {
	for i, a := range args {
		args[i] = postgresLiteral(a)
	}
	rows, err := q.sql.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return postgresRows{rows}, nil
}

type postgresRows struct{ *sql.Rows }

// Close leaves its error to Err.
func (r postgresRows) Close() { _ = r.Rows.Close() }

// Scan leaves columns unread, which database/sql cannot.
func (r postgresRows) Scan(dest ...any) error {
	for i, d := range dest {
		if d == nil {
			dest[i] = unread{}
		}
	}
	return r.Rows.Scan(dest...)
}

type unread struct{}

func (unread) Scan(any) error { return nil }
