package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/stet-dev/stet/internal/pgstore"
)

func openPostgres(ctx context.Context, db *sql.DB, c Config) (*pgstore.Store, error) {
	return pgstore.Open(ctx, pgstore.SQL{On: db}, pgstore.Config{Package: "sqlstore", Closed: ErrClosed, LockTimeout: c.LockTimeout, Volatile: c.AllowVolatile,
		Bind: func(tx any) (pgstore.Querier, map[string]any, bool) {
			t, ok := tx.(*sql.Tx)
			return pgstore.SQL{On: t}, nil, ok && t != nil
		}})
}

// migratePostgres takes the steps that are missing, in one transaction.
func migratePostgres(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := pgstore.Migrate(ctx, pgstore.SQL{On: tx}); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
