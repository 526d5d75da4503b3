package sqlstore

import (
	"context"

	"github.com/stet-dev/stet/internal/sqltext"
)

func readMySQL(c querier) *sqltext.Reader {
	return &sqltext.Reader{Dialect: sqltext.MySQLDialect,
		Run: func(ctx context.Context, statement string, args []any, row func(sqltext.Scanner) error) error {
			return eachRow(ctx, c, new(sqltext.MySQL).Fill(statement, args...), row)
		}}
}
