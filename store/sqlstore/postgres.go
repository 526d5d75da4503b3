package sqlstore

import (
	"context"
	"database/sql"

	"github.com/stet-dev/stet/internal/pgstore"
)

func openPostgres(ctx context.Context, db *sql.DB, c Config) (*pgstore.Store, error) {
	return pgstore.Open(ctx, pgstore.SQL{On: db}, pgstore.Config{Package: "sqlstore", Closed: ErrClosed, LockTimeout: c.LockTimeout, Volatile: c.AllowVolatile,
		Begin: func(ctx context.Context, f func(pgstore.Querier) error) error { return pgstore.BeginSQL(ctx, db, f) },
		Bind: func(tx any) (pgstore.Querier, map[string]any, bool) {
			t, ok := tx.(*sql.Tx)
			return pgstore.SQL{On: t}, nil, ok && t != nil
		}})
}
