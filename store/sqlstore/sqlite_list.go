package sqlstore

import (
	"context"
	"database/sql"

	"github.com/stet-dev/stet/internal/monotonic"
	"github.com/stet-dev/stet/internal/sqltext"
)

// source is the pool, or a transaction.
type source interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func readSQLite(from source, clk *monotonic.Clock) *sqltext.Reader {
	return &sqltext.Reader{Dialect: sqltext.SQLiteDialect, Clock: clk.Micros,
		Run: func(ctx context.Context, statement string, args []any, row func(sqltext.Scanner) error) error {
			rows, err := from.QueryContext(ctx, statement, args...)
			return sqltext.EachRow(rows, err, row)
		}}
}
